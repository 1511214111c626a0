package seal_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/seal"
)

// A cursor that only the client that got it can use.
func Example() {
	s, err := seal.New(seal.NewKey())
	if err != nil {
		log.Fatal(err)
	}
	cursor := s.Seal([]byte("page 2"), []byte("client ann"))
	plain, err := s.Open(cursor, []byte("client ann"))
	fmt.Printf("%s %v\n", plain, err)
	_, err = s.Open(cursor, []byte("client bob"))
	fmt.Println(err)
	// Output:
	// page 2 <nil>
	// seal: the text was not sealed here, or was changed
}

func TestNew(t *testing.T) {
	for _, n := range []int{0, 16, 31, 33} {
		if _, err := seal.New(make([]byte, n)); !errors.Is(err, seal.ErrKey) {
			t.Errorf("a key of %d bytes: %v, want ErrKey", n, err)
		}
	}
}

// FuzzOpen checks that only sealed texts can be opened, and that no changed text can.
func FuzzOpen(f *testing.F) {
	s, err := seal.New(make([]byte, seal.KeyLength))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("text"), []byte("binding"), uint(3))
	f.Add([]byte{}, []byte{}, uint(0))
	f.Fuzz(func(t *testing.T, plain, binding []byte, at uint) {
		text := s.Seal(plain, binding)
		if got, err := s.Open(text, binding); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("Open returned %q, %v, want %q", got, err, plain)
		}
		changed := []byte(text)
		if i := at % uint(len(changed)); changed[i] == 'A' {
			changed[i] = 'B'
		} else {
			changed[i] = 'A'
		}
		for _, other := range []string{string(changed), text[:len(text)-1], text + "A", string(plain)} {
			if _, err := s.Open(other, binding); err == nil {
				t.Errorf("Open accepted %q, want an error", other)
			}
		}
		if _, err := s.Open(text, append(bytes.Clone(binding), 0)); err == nil {
			t.Error("Open accepted another binding, want an error")
		}
	})
}
