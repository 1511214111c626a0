// Package acp holds our ends of the Agent Communication Protocol against its own SDK.
package acp
