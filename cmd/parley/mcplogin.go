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

// How the verbs of MCP get a token, when a server over HTTP answers 401 and none was given with --token.

// loginFlags say who we are to an authorization server.
type loginFlags struct {
	how        string
	clientID   string
	secretFile string
}

// The values of --login.
const (
	loginAuto    = "auto"    // in a browser where a person looks at the terminal, else with what is stored
	loginBrowser = "browser" // in a browser in any case
	loginClient  = "client"  // as a program of its own, with --client-id and --client-secret-file
	loginNever   = "never"   // not even with what is stored
)

func (l *loginFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.how, "login", loginAuto, "`HOW` to get a token when the server wants one: auto (a browser, if a person is here), browser, client or never")
	f.StringVar(&l.clientID, "client-id", "", "`ID` that we have at the authorization server; without it we register ourselves")
	f.StringVar(&l.secretFile, "client-secret-file", "", "`FILE` with the secret that belongs to it")
	_ = cmd.RegisterFlagCompletionFunc("login", cobra.FixedCompletions([]string{loginAuto, loginBrowser, loginClient, loginNever}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// errNoLogin is the end of a login where nobody could go to a browser.
var errNoLogin = errors.New("nobody is here to log in; do it once on a terminal, or with --login browser")

// nobody is a grant for when nobody is there.
type nobody struct{}

func (nobody) Token(context.Context, *oauth.Ask) (*oauth.Token, error) { return nil, errNoLogin }

// authorization makes what shows and gets tokens; nil when a token was given, or none is wanted.
func (v *mcpVerb) authorization(dialer *parley.Dialer) (*oauth.Client, error) {
	if dialer.Token != "" || dialer.Header.Get("Authorization") != "" {
		if v.login.clientID != "" || v.login.how != loginAuto {
			return nil, usagef("--login is for servers to which no token was given; leave out --token")
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
		Base:     base,
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
		}
		c.Registrations = []oauth.Registration{r}
	} else if v.login.secretFile != "" {
		return nil, usagef("--client-secret-file goes with --client-id")
	}
	return c, nil
}

// serverURL is the address of the server without what is ours in it.
func (v *mcpVerb) serverURL() string { return strings.TrimPrefix(v.target.URL(), "sse+") }

func (v *mcpVerb) grant() (oauth.Grant, error) {
	switch v.login.how {
	case loginNever:
		return nil, nil
	case loginClient:
		if v.login.clientID == "" || v.login.secretFile == "" {
			return nil, usagef("--login client needs --client-id and --client-secret-file")
		}
		return oauth.ClientCredentials{}, nil
	case loginAuto:
		if !isTerminal(v.app.stderr) {
			return nobody{}, nil
		}
	case loginBrowser:
	default:
		return nil, usagef("--login is auto, browser, client or never, not %q", cut(v.login.how, 60))
	}
	loopback := &oauth.Loopback{
		Open: v.app.browse,
		Page: "You are logged in. You may close this page and go back to the terminal.",
		Notice: func(address string) {
			v.screen.line("The server wants to know who you are. If no browser opens, go to\n\n  " + visible(address, 4000) + "\n")
		},
	}
	browser := &oauth.Code{Begin: loopback.Begin}
	return patient{browser, v.patience}, nil
}

// patient is a grant during which the time of a call does not run: a person needs theirs.
type patient struct {
	grant    oauth.Grant
	patience *patience
}

func (p patient) Token(ctx context.Context, ask *oauth.Ask) (*oauth.Token, error) {
	defer p.patience.pause()()
	return p.grant.Token(ctx, ask)
}

// tokenDir is where tokens are kept: below $XDG_STATE_HOME, or the place that stands for it.
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
	cmd, v := a.mcpVerbCommand(&cobra.Command{
		Use:   "logout TARGET",
		Short: "forget the token for a server",
		Long: `Forget the token for a server: the next call asks for a login again. Nothing is sent.

  parley mcp logout :3000/mcp
  parley mcp logout https://mcp.example.com/mcp
  parley mcp ping :3000/mcp --login never`,
	}, 0, nil)
	cmd.ValidArgsFunction = a.completeMCP(v, nil, false)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		var err error
		if v.target, words, err = a.target(v.reach, words, false); err != nil {
			return err
		}
		if len(words) > 0 {
			return usagef("%q is one word too many", cut(words[0], 60))
		}
		if !isWeb(v.target) {
			return usagef("only servers over HTTP have tokens; %s has none", v.target)
		}
		dir, err := a.tokenDir()
		if err != nil {
			return err
		}
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return nil // there are no tokens at all
		}
		c := &oauth.Client{Resource: v.serverURL(), Grant: nobody{}, Store: &oauth.Files{Dir: dir}}
		return errors.Join(c.Forget(cmd.Context()), c.Close())
	}
	return cmd
}
