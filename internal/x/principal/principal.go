// Package principal stores the name of an authenticated caller in a context. Authentication sets
// it; the owners of sessions and tasks read it.
package principal

import "context"

type key struct{}

// With returns a context with the caller name.
func With(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, key{}, name)
}

// Of returns the caller, or "" if the caller is not authenticated.
func Of(ctx context.Context) string {
	name, _ := ctx.Value(key{}).(string)
	return name
}
