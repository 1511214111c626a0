package conformance

import "testing"

func TestRulesAreDifferent(t *testing.T) {
	if n := len(Rules()); n < 1000 {
		t.Errorf("%d rules", n)
	}
}
