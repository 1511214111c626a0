package storetest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/store"
)

// Options describes a driver. The zero value describes a store in memory.
type Options struct {
	// Reopen closes s and opens its data again. If nil, the data does not survive Close.
	Reopen func(t *testing.T, s store.Store, l store.Limits) store.Store

	// RealTime runs the rules outside of a synctest bubble. Those that wait then take up to a
	// second each.
	RealTime bool
}

// Run checks every rule of the contract as a subtest. open returns an empty store with the given
// limits.
func Run(t *testing.T, open func(t *testing.T, l store.Limits) store.Store, o *Options) {
	if o == nil {
		o = &Options{}
	}
	for _, r := range rules() {
		if r.reopens && o.Reopen == nil {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			body := func(t *testing.T) {
				if err := judge(t, r, open, o); err != nil {
					t.Error(err)
				}
			}
			if o.RealTime {
				body(t)
			} else {
				synctest.Test(t, body)
			}
		})
	}
}

// A rule is one requirement of the contract. check returns an error and does not call testing.T, so
// that the package's own tests can check that a rule fails.
type rule struct {
	name    string
	limits  store.Limits
	reopens bool
	check   func(*env) error
}

// env is the environment of a rule.
type env struct {
	store.Store
	ctx    context.Context
	t      *testing.T
	limits store.Limits
	o      *Options
}

// judge runs one rule on a new store and returns its error.
func judge(t *testing.T, r rule, open func(t *testing.T, l store.Limits) store.Store, o *Options) (err error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := &env{Store: open(t, r.limits), ctx: ctx, t: t, limits: r.limits, o: o}
	defer func() {
		if closing := e.Close(); err == nil && closing != nil {
			err = fmt.Errorf("Close: %v", closing)
		}
	}()
	return r.check(e)
}

// reopen continues with the data of a closed store.
func (e *env) reopen() { e.Store = e.o.Reopen(e.t, e.Store, e.limits) }

// short returns a time to live that is short enough to wait for.
func (e *env) short() time.Duration {
	if e.o.RealTime {
		return 300 * time.Millisecond
	}
	return 10 * time.Second
}

// sleep waits for d.
func (e *env) sleep(d time.Duration) { time.Sleep(d) }

func rules() []rule { return append(logRules(), append(valueRules(), lifeRules()...)...) }
