package oauth_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

func TestRegistration(t *testing.T) {
	for name, c := range map[string]struct {
		methods []string // nil: not listed, which means basic
		reply   map[string]any
		asked   string // token_endpoint_auth_method
		basic   string // user and password at the token endpoint
		form    string // client_id and client_secret there
	}{
		"public":                       {[]string{"none"}, map[string]any{"client_id": "c"}, "none", "", "c "},
		"public, secret not needed":    {[]string{"none"}, map[string]any{"client_id": "c", "client_secret": "s"}, "none", "", "c "},
		"public before secret":         {[]string{"client_secret_post", "none"}, map[string]any{"client_id": "c"}, "none", "", "c "},
		"basic":                        {[]string{"client_secret_basic"}, map[string]any{"client_id": "c d", "client_secret": "s:/%"}, "client_secret_basic", "c+d:s%3A%2F%25", " "},
		"post":                         {[]string{"client_secret_post"}, map[string]any{"client_id": "c", "client_secret": "s"}, "client_secret_post", "", "c s"},
		"not said":                     {nil, map[string]any{"client_id": "c", "client_secret": "s"}, "client_secret_basic", "c:s", " "},
		"the server has its own mind":  {[]string{"client_secret_post", "client_secret_basic"}, map[string]any{"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}, "client_secret_basic", "", "c s"},
		"no secret where one is usual": {[]string{"client_secret_basic"}, map[string]any{"client_id": "c"}, "client_secret_basic", "", "c "},
	} {
		t.Run(name, func(t *testing.T) {
			w, u := newWorld(t), new(user)
			m := w.server("")
			delete(m, "token_endpoint_auth_methods_supported")
			if c.methods != nil {
				m["token_endpoint_auth_methods_supported"] = c.methods
			}
			w.document("/.well-known/oauth-authorization-server", m)
			var said oauth.ClientMetadata
			w.page("/register", func(rw http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
					t.Error(err)
				}
				answer(rw, 201, c.reply)
			})
			var basic, form string
			w.page("/token", func(rw http.ResponseWriter, r *http.Request) {
				if user, password, ok := r.BasicAuth(); ok {
					basic = user + ":" + password
				}
				form = r.PostForm.Get("client_id") + " " + r.PostForm.Get("client_secret")
				w.token(rw, r)
			})
			if status, _, err := post(t, w.client(t, u), "{}"); status != 200 {
				t.Fatal(err)
			}
			want := oauth.ClientMetadata{ClientName: "parley", RedirectURIs: []string{back}, GrantTypes: []string{"authorization_code", "refresh_token"},
				ResponseTypes: []string{"code"}, TokenAuthMethod: c.asked, ApplicationType: "native"}
			if diff := cmp.Diff(want, said); diff != "" {
				t.Errorf("registration (-want +got)\n%s", diff)
			}
			if basic != c.basic || form != c.form {
				t.Errorf("authenticated by %q and %q, want %q and %q", basic, form, c.basic, c.form)
			}
		})
	}
}

func TestRegistrationLost(t *testing.T) {
	w, u := newWorld(t), new(user)
	forgotten := true
	w.page("/token", func(rw http.ResponseWriter, r *http.Request) {
		if forgotten {
			forgotten = false
			answer(rw, 401, map[string]any{"error": "invalid_client"})
			return
		}
		w.token(rw, r)
	})
	store := new(oauth.Memory)
	first := w.client(t, u)
	first.Store = store
	if _, _, err := post(t, first, "{}"); err == nil {
		t.Fatal("it worked")
	}
	second := w.client(t, u)
	second.Store = store
	if status, _, err := post(t, second, "{}"); status != 200 {
		t.Fatal(err)
	}
	if n := w.count("POST /register"); n != 2 {
		t.Errorf("registered %d times", n)
	}
}

func TestDocument(t *testing.T) {
	w, u := newWorld(t), new(user)
	m := w.server("")
	m["client_id_metadata_document_supported"] = true
	w.document("/.well-known/oauth-authorization-server", m)
	client := w.client(t, u)
	client.Document = "https://app.example/client.json"
	if status, _, err := post(t, client, "{}"); status != 200 {
		t.Fatal(err)
	}
	if got := u.asked[0].Get("client_id"); got != client.Document || w.count("POST /register") != 0 {
		t.Errorf("client_id %q, %d registrations", got, w.count("POST /register"))
	}
}

func TestRegistrationsOfIssuers(t *testing.T) {
	for name, c := range map[string]struct {
		list func(w *world) []oauth.Registration
		want string
	}{
		"of this issuer": {func(w *world) []oauth.Registration {
			return []oauth.Registration{{Issuer: "https://x", ClientID: "x"}, {Issuer: w.url, ClientID: "mine"}}
		}, "mine"},
		"of any":            {func(*world) []oauth.Registration { return []oauth.Registration{{ClientID: "any"}} }, "any"},
		"of another":        {func(*world) []oauth.Registration { return []oauth.Registration{{Issuer: "https://x", ClientID: "x"}} }, "c"},
		"issuer with slash": {func(w *world) []oauth.Registration { return []oauth.Registration{{Issuer: w.url + "/", ClientID: "x"}} }, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			w, u := newWorld(t), new(user)
			client := w.client(t, u)
			client.Registrations = c.list(w)
			if status, _, err := post(t, client, "{}"); status != 200 {
				t.Fatal(err)
			}
			if got := u.asked[0].Get("client_id"); got != c.want {
				t.Errorf("client_id %q, want %q", got, c.want)
			}
		})
	}
	w, u := newWorld(t), new(user)
	client := w.client(t, u)
	client.Registrations = []oauth.Registration{{ClientID: "x", RedirectURIs: []string{"http://127.0.0.1:9/other"}}}
	if _, _, err := post(t, client, "{}"); !errors.Is(err, oauth.ErrClient) {
		t.Errorf("a registration for another address: %v", err)
	}
}
