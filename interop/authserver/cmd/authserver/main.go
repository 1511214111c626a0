// Command authserver runs the authorization server of package authserver, for manual tests:
//
//	go run ./authserver/cmd/authserver -listen 127.0.0.1:9000 -dpop
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/da1ed7bb/parley/interop/authserver"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "authserver:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("authserver", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address, on this machine")
	scopes := flags.String("scopes", "", "scopes that are known, between spaces")
	var o authserver.Options
	flags.StringVar(&o.Path, "path", "", "path of the issuer, such as /tenant")
	flags.BoolVar(&o.OpenID, "openid", false, "metadata at the place of OpenID Connect")
	flags.BoolVar(&o.Documents, "documents", false, "take client metadata documents")
	flags.BoolVar(&o.NoRegistration, "no-registration", false, "no dynamic registration")
	flags.BoolVar(&o.Opaque, "opaque", false, "access tokens that are no JWTs")
	flags.BoolVar(&o.DPoP, "dpop", false, "offer DPoP")
	flags.BoolVar(&o.Nonce, "nonce", false, "want nonces in proofs")
	flags.DurationVar(&o.TTL, "ttl", 0, "how long tokens last (1h)")
	flags.BoolVar(&o.NoPKCE, "no-pkce", false, "misdeed: say nothing of PKCE")
	flags.BoolVar(&o.Expired, "expired", false, "misdeed: give tokens that have ended")
	flags.BoolVar(&o.Deny, "deny", false, "the user says no")
	flags.BoolVar(&o.Ask, "ask", false, "ask the user, on a page")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *scopes != "" {
		o.Scopes = strings.Fields(*scopes)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := authserver.Listen(ctx, *listen, o)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println(s.Issuer)
	<-ctx.Done()
	return nil
}
