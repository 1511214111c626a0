// Package oauth is the authorization of MCP over HTTP.
package oauth
