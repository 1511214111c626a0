package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/gateway"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// gateControlFlags are the flags of the commands that control a running gateway.
type gateControlFlags struct {
	reach reachFlags
	out   outputFlags
	at    string
	undo  bool
}

// gateControls returns the commands that call control methods.
func (a *app) gateControls() []*cobra.Command {
	control := func(use, short, long, format string, args cobra.PositionalArgs, call func(*gateControlFlags, []string) (string, any)) *cobra.Command {
		var flags gateControlFlags
		cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: args, RunE: func(cmd *cobra.Command, words []string) error {
			method, params := call(&flags, words)
			return a.gateControl(cmd.Context(), &flags, method, params)
		}}
		flags.reach.registerCommon(cmd)
		cmd.Flags().StringVar(&flags.at, "at", "", "`TARGET` of the control methods, in place of the address in the file")
		if cmd.Name() == "cordon" {
			cmd.Flags().BoolVar(&flags.undo, "undo", false, "send calls to the server again")
		}
		flags.out.registerWith(cmd, format, forms)
		return cmd
	}
	return []*cobra.Command{
		control("status", "show the state of all servers of a running gateway",
			`Show the state of all servers of a running gateway: calls, failures, latencies, and what waits.

  parley gate status -c parley.yaml
  parley gate status -c parley.yaml -o json
  parley gate status --at http://127.0.0.1:7501/rpc

The address is gateway.admin of the file, or else the first address of gateway.listen.`,
			"table", noWords, func(*gateControlFlags, []string) (string, any) { return "gateway.status", nil }),
		control("reload", "have a running gateway read its file again, and approve its programs",
			`Have a running gateway read its file again. Calls in flight finish under the old configuration.
Programs that are new or changed in the file may start afterwards; without this command, or the
signal HUP, they may not. If the file has problems, nothing changes.

  parley gate reload -c parley.yaml
  parley gate reload --at http://127.0.0.1:7501/rpc
  parley gate -c parley.yaml --check      only print the problems`,
			"json", noWords, func(*gateControlFlags, []string) (string, any) { return "gateway.reload", nil }),
		control("approve NAME [TOOL]", "accept what a server of a running gateway offers now",
			`Accept what a server of a running gateway offers now: all of it, or one tool or prompt. The gateway
hides tools that have changed since they were accepted, and new ones (gateway.mcp.pins in the file);
parley gate status -o json shows what has changed.

  parley gate approve notes -c parley.yaml
  parley gate approve notes read_file -c parley.yaml
  parley gate status -c parley.yaml -o json --jq .waiting`,
			"json", cobra.RangeArgs(1, 2), func(_ *gateControlFlags, words []string) (string, any) {
				params := map[string]string{"server": words[0]}
				if len(words) == 2 {
					params["name"] = words[1]
				}
				return "gateway.approve", params
			}),
		control("cordon NAME", "send no more calls to a server of a running gateway",
			`Send no more calls to a server of a running gateway, until --undo. Calls in flight finish, and
other members of its group get its calls. Without other members, they fail with error -31006.

  parley gate cordon billing-a -c parley.yaml
  parley gate cordon billing-a -c parley.yaml --undo
  parley gate status -c parley.yaml       show which servers are cordoned`,
			"json", cobra.ExactArgs(1), func(flags *gateControlFlags, words []string) (string, any) {
				return "gateway.cordon", map[string]any{"name": words[0], "undo": flags.undo}
			}),
	}
}

// gateControl calls a control method of a running gateway.
func (a *app) gateControl(ctx context.Context, flags *gateControlFlags, method string, params any) error {
	p, err := a.printer(flags.out)
	if err != nil {
		return err
	}
	t, err := a.gateAddress(flags)
	if err != nil {
		return err
	}
	d, err := a.dialer(flags.reach)
	if err != nil {
		return err
	}
	client, err := d.Dial(ctx, t)
	if err != nil {
		return err
	}
	defer client.Close()
	result, err := jsonrpc.Call[jsonrpc.Raw](ctx, client, method, params)
	if errors.Is(err, jsonrpc.ErrMethodNotFound) {
		return fmt.Errorf("%s has no control methods: set gateway.admin in the file, and use that address: %w", t, err)
	}
	if err != nil {
		return err
	}
	if p.format == "table" {
		var status struct {
			Servers jsonrpc.Raw `json:"servers"`
		}
		if result.Decode(&status) == nil && status.Servers != nil {
			result = status.Servers
		}
	}
	return p.print(ctx, result)
}

// gateAddress returns the address of the control methods.
func (a *app) gateAddress(flags *gateControlFlags) (parley.Target, error) {
	address := flags.at
	if address == "" {
		if flags.reach.config == "" {
			return parley.Target{}, usagef("missing -c FILE of the gateway, or --at TARGET")
		}
		file, err := config.Read(a.atHome(flags.reach.config), &config.Options{Gateway: &config.GatewayOptions{InsecureNoAuth: true}})
		if err != nil {
			return parley.Target{}, usagef("-c %s: %v", flags.reach.config, bareReason(err))
		}
		if file.Gateway == nil || file.Gateway.Admin == "" && len(file.Gateway.Listen) == 0 {
			return parley.Target{}, usagef("-c %s: it has no address of a gateway; use --at TARGET", flags.reach.config)
		}
		if address = file.Gateway.Admin; address == "" {
			address = file.Gateway.Listen[0]
		}
	}
	t, err := parley.ParseTarget(address)
	if err != nil {
		return t, err
	}
	return gateway.Endpoint(t), nil
}
