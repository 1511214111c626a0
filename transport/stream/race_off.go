//go:build !race

package stream

const poison = false
