// Package acp tests our client and server of the Agent Communication Protocol against its own SDK.
package acp
