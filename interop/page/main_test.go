package page

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/da1ed7bb/parley/interop/harness"
)

// rebound is a name that the browser takes to this machine, as a name does whose owner has changed its address.
const rebound = "rebound.example"

// chromium is the one browser of all tests; each test has a profile of its own in it.
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
		// Nothing leaves this machine, and one foreign name leads back to it.
		chromedp.Flag("host-resolver-rules", "MAP "+rebound+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-proxy-server", true),
	)
	if path, err := exec.LookPath("chromium"); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, quit := chromedp.NewContext(allocated)
	chromium.ctx = ctx
	code := harness.Main(m)
	quit()
	release()
	os.RemoveAll(home)
	os.Exit(code)
}

// browser starts Chromium, the first time.
func browser(t *testing.T) context.Context {
	t.Helper()
	chromium.once.Do(func() {
		if _, err := exec.LookPath("chromium"); err != nil {
			chromium.err = fmt.Errorf("chromium: %w; run: make setup", err)
			return
		}
		chromium.err = chromedp.Do(chromium.ctx)
	})
	if chromium.err != nil {
		t.Fatalf("Chromium does not start: %v", chromium.err)
	}
	return chromium.ctx
}
