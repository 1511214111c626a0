//go:build !race

package check_test

const underRace = false
