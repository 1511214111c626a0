// Package page tests the playground's page in Debian's Chromium as a person uses it: through
// visible, named elements.
//
// A test opens the page that `parley up` prints, clicks and types through the browser's own input,
// and reads the accessibility tree. It waits for the expected content, never for a fixed time. The
// other side is the demo, or a raw server of this package that stores every byte. axe-core checks
// each state, in light and in dark mode.
//
// PARLEY_SHOTS names a folder for screenshots. Without it they are written to the test's own
// folder. PARLEY_IMAGES=1 writes the screenshots that the guides show into docs/guides/images.
package page
