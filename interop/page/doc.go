// Package page drives the playground's page with Debian's Chromium, as a person would: by what is on the screen and has a name.
//
// A test opens the page that `parley up` prints, clicks and types through the browser's own input, and reads what a screen reader
// would read. It waits for what it expects to see, never for time. The other side is the demo, or a raw server of this package that
// keeps every byte. axe-core judges each state, in light and in dark.
//
// PARLEY_SHOTS names a folder for screenshots; without it they go into the test's own. PARLEY_IMAGES=1 writes those that the
// guides show into docs/guides/images.
package page
