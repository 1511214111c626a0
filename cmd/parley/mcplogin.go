package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/mcp/oauth"
	"github.com/spf13/cobra"
)

// How the MCP commands get a token if an HTTP server responds with status 401 and --token is not
// set.

// loginFlags identify this client to an authorization server.
type loginFlags struct {
	how        string
	clientID   string
	secretFile string
}

// The values of --login.
const (
	loginAuto    = "auto"    // in a browser if stderr is a terminal, else with stored tokens only
	loginBrowser = "browser" // always in a browser
	loginClient  = "client"  // client credentials, with --client-id and --client-secret-file
	loginNever   = "never"   // never, not even with stored tokens
)

func (l *loginFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.how, "login", loginAuto, "`METHOD` to get a token if the server requires one: auto (a browser, on a terminal), browser, client or never")
	f.StringVar(&l.clientID, "client-id", "", "client `ID` at the authorization server; by default parley registers itself")
	f.StringVar(&l.secretFile, "client-secret-file", "", "`FILE` with the client secret")
	// The flag exists, so the error is nil.
	_ = cmd.RegisterFlagCompletionFunc("login", cobra.FixedCompletions([]string{loginAuto, loginBrowser, loginClient, loginNever}, cobra.ShellCompDirectiveNoFileComp))
}

// errNoLogin is returned if a login needs a browser and no user is present.
var errNoLogin = errors.New("login requires a terminal; log in once on a terminal, or use --login browser")

// noUser is the grant for runs without a user.
type noUser struct{}

func (noUser) Token(context.Context, *oauth.Ask) (*oauth.Token, error) { return nil, errNoLogin }

// authorization returns the client that obtains and sends tokens, or nil if a token was given or
// logins are disabled.
func (v *mcpCommand) authorization(dialer *parley.Dialer) (*oauth.Client, error) {
	if dialer.Token != "" || dialer.Header.Get("Authorization") != "" {
		if v.login.clientID != "" || v.login.how != loginAuto {
			return nil, usagef("--login cannot be used with --token")
		}
		return nil, nil
	}
	grant, err := v.grant()
	if err != nil || grant == nil {
		return nil, err
	}
	dir, err := v.app.tokenDir()
	if err != nil {
		return nil, err
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig = dialer.TLS
	c := &oauth.Client{
		Resource: v.serverURL(),
		Grant:    grant,
		Store:    &oauth.Files{Dir: dir},
		About:    oauth.ClientMetadata{ClientName: "parley", SoftwareID: "parley", SoftwareVersion: thisBuild().Version},
		Base:     hidingTransport{base, v.app.hide},
		Report:   func(what string, err error) { v.screen.line("parley: " + what + ": " + visible(err.Error(), 400)) },
	}
	if v.login.clientID != "" {
		r := oauth.Registration{ClientID: v.login.clientID}
		if v.login.secretFile != "" {
			content, err := v.app.readInput(v.login.secretFile)
			if err != nil {
				return nil, err
			}
			r.Secret = strings.TrimSpace(string(content))
			v.app.hide(r.Secret)
		}
		c.Registrations = []oauth.Registration{r}
	} else if v.login.secretFile != "" {
		return nil, usagef("--client-secret-file requires --client-id")
	}
	return c, nil
}

// serverURL returns the server's address without parley's own scheme prefix.
func (v *mcpCommand) serverURL() string { return strings.TrimPrefix(v.target.URL(), "sse+") }

func (v *mcpCommand) grant() (oauth.Grant, error) {
	switch v.login.how {
	case loginNever:
		return nil, nil
	case loginClient:
		if v.login.clientID == "" || v.login.secretFile == "" {
			return nil, usagef("--login client requires --client-id and --client-secret-file")
		}
		return oauth.ClientCredentials{}, nil
	case loginAuto:
		if !isTerminal(v.app.stderr) {
			return noUser{}, nil
		}
	case loginBrowser:
	default:
		return nil, usagef("--login must be auto, browser, client or never, not %q", cut(v.login.how, 60))
	}
	loopback := &oauth.Loopback{
		Open: v.app.browse,
		Page: "You are logged in. You can close this page and return to the terminal.",
		Notice: func(address string) {
			v.screen.line("The server requires a login. If no browser opens, go to\n\n  " + visible(address, 4000) + "\n")
		},
	}
	browser := &oauth.Code{Begin: loopback.Begin}
	return patient{browser, v.patience}, nil
}

// A hidingTransport registers the credentials of each request before it is sent, wherever they are
// from: a login, a refresh or a store.
type hidingTransport struct {
	*http.Transport

	hide func(values ...string)
}

func (t hidingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if value := r.Header.Get("Authorization"); value != "" {
		t.hide(value)
	}
	return t.Transport.RoundTrip(r)
}

// patient is a grant that stops the call's time while the user logs in.
type patient struct {
	grant    oauth.Grant
	patience *patience
}

func (p patient) Token(ctx context.Context, ask *oauth.Ask) (*oauth.Token, error) {
	defer p.patience.pause()()
	return p.grant.Token(ctx, ask)
}

// tokenDir returns the folder of stored tokens: in $XDG_STATE_HOME or its default.
func (a *app) tokenDir() (string, error) {
	if dir := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "parley", "oauth"), nil
	}
	if home := a.getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "parley", "oauth"), nil
	}
	return oauth.DefaultDir()
}

func (a *app) mcpLogout() *cobra.Command {
	cmd, v := a.mcpSubcommand(&cobra.Command{
		Use:   "logout TARGET",
		Short: "delete the token for a server",
		Long: `Delete the token for a server, so that the next call requires a login. Nothing is sent.

  parley mcp logout :3000/mcp
  parley mcp logout https://mcp.example.com/mcp
  parley mcp ping :3000/mcp --login never`,
	}, 0, nil)
	cmd.ValidArgsFunction = a.completeMCP(v, nil, false)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		var err error
		if v.target, words, err = a.target(cmd.Context(), &v.reach, words, false); err != nil {
			return err
		}
		if len(words) > 0 {
			return usagef("unexpected argument %q: only TARGET is expected", cut(words[0], 60))
		}
		if !isWeb(v.target) {
			return usagef("only HTTP servers have stored tokens; %s has none", v.target)
		}
		dir, err := a.tokenDir()
		if err != nil {
			return err
		}
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return nil // no tokens are stored
		}
		c := &oauth.Client{Resource: v.serverURL(), Grant: noUser{}, Store: &oauth.Files{Dir: dir}}
		return errors.Join(c.Forget(cmd.Context()), c.Close())
	}
	return cmd
}
