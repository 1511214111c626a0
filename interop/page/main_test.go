package page

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// rebound is a name that the browser resolves to this machine, like a name whose owner has changed
// its address.
const rebound = "rebound.example"

// chromium is the one browser of all tests. Each test has its own profile.
var chromium struct {
	once sync.Once
	ctx  context.Context // of the browser
	err  error
}

func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "parley-page-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.UserDataDir(home),
		chromedp.Flag("lang", "en-US"),
		// No request leaves this machine, and one foreign name resolves to it.
		chromedp.Flag("host-resolver-rules", "MAP "+rebound+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-proxy-server", true),
	)
	if path, err := lookChromium(); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, quit := chromedp.NewContext(allocated)
	chromium.ctx = ctx
	code := m.Run()
	quit()
	release()
	os.RemoveAll(home)
	os.Exit(code)
}

// lookChromium finds Chromium, if possible without the windows of a desktop: a page then needs a
// third less of the processor.
func lookChromium() (string, error) {
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		return path, nil
	}
	return exec.LookPath("chromium")
}

// browser returns the browser, and starts Chromium on the first call.
func browser(t *testing.T) context.Context {
	t.Helper()
	chromium.once.Do(func() {
		if _, err := lookChromium(); err != nil {
			chromium.err = fmt.Errorf("%w; run: make setup", err)
			return
		}
		chromium.err = chromedp.Do(chromium.ctx)
	})
	if chromium.err != nil {
		t.Fatalf("Chromium does not start: %v", chromium.err)
	}
	return chromium.ctx
}
