package budget

import (
	"fmt"
	"testing"
)

// TestAccountsWithoutUsersAreFew checks that an account is used again by its key, and that only a
// few accounts without users are stored.
func TestAccountsWithoutUsersAreFew(t *testing.T) {
	a := Accounts{Pool: &Pool{Max: 1 << 20}}
	held := a.Enter("held")
	for i := range 10 * accountsKept {
		s := a.Enter(fmt.Sprint(i))
		if again := a.Enter(s.key); again != s {
			t.Fatal("two accounts with one key")
		}
		a.Leave(s)
		a.Leave(s)
		if again := a.Enter(s.key); again != s {
			t.Fatal("the account was not stored")
		}
		a.Leave(s)
		if len(a.byKey) > accountsKept+1 || a.Len() != 1 {
			t.Fatalf("%d accounts, %d with users", len(a.byKey), a.Len())
		}
	}
	if a.Enter("held") != held {
		t.Error("an account with users was removed")
	}
	a.Leave(held)
	a.Leave(held)
	for i := range accountsKept {
		a.Leave(a.Enter(fmt.Sprint("x", i)))
	}
	if a.byKey["held"] != nil || len(a.byKey) != accountsKept || a.Len() != 0 {
		t.Errorf("%d accounts, %d with users", len(a.byKey), a.Len())
	}
}

func TestAnAccountThatIsUsedAgainCostsNoAllocation(t *testing.T) {
	a := Accounts{Pool: &Pool{Max: 1 << 20}}
	if n := testing.AllocsPerRun(100, func() { a.Leave(a.Enter("127.0.0.1:4000")) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
