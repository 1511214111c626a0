package budget

import (
	"net"
	"net/netip"
	"sync"
)

// Accounts are the accounts of a Pool that several users share, by key. An account exists while it
// has users; the last accountsKept without users are stored for their next user, because most keys
// are used again at once. Accounts are safe for concurrent use.
type Accounts struct {
	Pool *Pool

	mu    sync.Mutex // guards the fields below
	byKey map[string]*Shared
	inUse int // accounts with users
	// accounts that had no users at some time, oldest first from next; others are nil
	kept [accountsKept]*Shared
	next int
}

// accountsKept is the maximum number of accounts without users.
const accountsKept = 64

// A Shared is an account with users.
type Shared struct {
	Account

	// guarded by the mu of the Accounts
	key   string
	users int
	kept  bool // it is in the list of the Accounts
}

// Enter returns the account with a key. The caller must call Leave.
func (a *Accounts) Enter(key string) *Shared {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.byKey[key]
	if s == nil {
		s = &Shared{key: key, Account: Account{Pool: a.Pool}}
		if a.byKey == nil {
			a.byKey = make(map[string]*Shared)
		}
		a.byKey[key] = s
	}
	if s.users++; s.users == 1 {
		a.inUse++
	}
	return s
}

// Leave is the other half of Enter.
func (a *Accounts) Leave(s *Shared) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	a.inUse--
	if s.kept {
		return
	}
	if old := a.kept[a.next]; old != nil {
		old.kept = false
		if old.users == 0 {
			delete(a.byKey, old.key)
		}
	}
	a.kept[a.next], s.kept = s, true
	a.next = (a.next + 1) % accountsKept
}

// Len returns the number of accounts with users.
func (a *Accounts) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inUse
}

// KeyOf returns the key of the account of a remote address: its IP address, or its network of 64
// bits for IPv6. It is empty for loopback and for addresses without an IP address, where each
// connection has its own account.
func KeyOf(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return ""
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	switch {
	case !ip.IsValid() || ip.IsLoopback():
		return ""
	case ip.Is6():
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}
