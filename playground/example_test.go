package playground_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/playground"
)

func Example() {
	page, err := playground.New(&playground.Options{Targets: []playground.Target{{Name: "@demo", Address: "http://127.0.0.1:3000/rpc"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close()
	server := httptest.NewServer(page)
	defer server.Close()

	client := parley.Dialer{Token: page.Token()}
	target, _ := parley.ParseTarget(server.URL + "/rpc")
	conn, err := client.Dial(context.Background(), target)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	var list struct {
		Targets []struct {
			Name  string         `json:"name"`
			State string         `json:"state"`
			Rest  map[string]any `json:",embed"`
		} `json:"targets"`
	}
	if err := conn.Call(context.Background(), "targets/list", nil, &list); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(list.Targets[0].Name, list.Targets[0].State)
	// Output: @demo closed
}
