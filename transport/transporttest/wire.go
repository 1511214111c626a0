package transporttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A direction is one half of a wire: how to write to a tape, and how to read from one.
type direction struct {
	name   string
	writer func(e *env, t *Tape) jsonrpc.Transport
	reader func(e *env, t *Tape) jsonrpc.Transport
}

// directions has both directions: a WebSocket client masks its frames, and a server does not.
var directions = []direction{
	{"client to server", client, server},
	{"server to client", server, client},
}

func client(e *env, t *Tape) jsonrpc.Transport {
	c, _ := e.over(t, Play(io.EOF))
	return c
}

func server(e *env, t *Tape) jsonrpc.Transport {
	_, s := e.over(Play(io.EOF), t)
	return s
}

// record returns the bytes of each of the bursts on the wire.
func (d direction) record(e *env, bursts ...jsonrpc.Burst) ([][]byte, error) {
	tape := Play(io.EOF)
	w := d.writer(e, tape)
	for _, b := range bursts {
		if err := w.Write(b); err != nil {
			return nil, err
		}
	}
	writes := tape.Writes()
	if len(writes) != len(bursts) {
		return nil, fmt.Errorf("%s: %d bursts took %d writes", d.name, len(bursts), len(writes))
	}
	return writes, nil
}

// both runs f for each direction.
func both(f func(d direction) error) error {
	for _, d := range directions {
		if err := f(d); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return nil
}

func checkOneWrite(e *env) error {
	return both(func(d direction) error {
		var out jsonrpc.Burst
		for n := range 100 {
			out.Add(numbered(n))
		}
		_, err := d.record(e, out, burst(numbered(1)), burst(sized(3000, 1), []byte("[\n\n]")))
		return err
	})
}

func checkSplits(e *env) error {
	sizes := []int{3, 100, 5000, 4095, 4096, 4097, 2, 70_000, 125, 126, 65_535, 65_536, 10}
	return both(func(d direction) error {
		var out jsonrpc.Burst
		for i, n := range sizes {
			out.Add(sized(n, i))
		}
		writes, err := d.record(e, out)
		if err != nil {
			return err
		}
		wire := writes[0]
		splits := map[string][][]byte{"1 byte": Split(wire, 1), "7 bytes": Split(wire, 7), "4096 bytes": Split(wire, 4096)}
		rng := rand.New(rand.NewPCG(1, 2)) // fixed, so that a failure is reproducible
		for i := range 20 {
			var chunks [][]byte
			for rest := wire; len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(1<<rng.IntN(18)))
				chunks, rest = append(chunks, rest[:n]), rest[n:]
			}
			splits[fmt.Sprintf("random split %d", i)] = chunks
		}
		for name, chunks := range splits {
			r := d.reader(e, Play(io.EOF, chunks...))
			for i, n := range sizes {
				if _, err := expect(r, sized(n, i)); err != nil {
					return fmt.Errorf("%s: payload %d: %w", name, i, err)
				}
			}
			if _, _, err := r.Read(); err == nil {
				return fmt.Errorf("%s: a payload too many", name)
			}
		}
		return nil
	})
}

// checkCuts ends the input after every single byte. Complete payloads must be read, an incomplete
// one must not, and more must have been false whenever the next Read had to wait.
func checkCuts(e *env) error {
	payloads := [][]byte{numbered(1), []byte(`""`), sized(130, 1), []byte("[ ]"), numbered(22)}
	return both(func(d direction) error {
		var bursts []jsonrpc.Burst
		for _, p := range payloads {
			bursts = append(bursts, burst(p))
		}
		writes, err := d.record(e, bursts...)
		if err != nil {
			return err
		}
		wire := bytes.Join(writes, nil)
		for cut := range len(wire) + 1 {
			whole, end := 0, 0
			for whole < len(writes) && end+len(writes[whole]) <= cut {
				end += len(writes[whole])
				whole++
			}
			r := d.reader(e, Play(ErrSilence, wire[:cut]))
			promised := false
			for n := 0; ; n++ {
				got, more, err := r.Read()
				if err != nil {
					switch {
					case promised:
						return fmt.Errorf("cut at %d: more was true before payload %d, which is not here", cut, n)
					case n != whole:
						return fmt.Errorf("cut at %d: %d payloads, want %d: %w", cut, n, whole, err)
					case !errors.Is(err, ErrSilence):
						return fmt.Errorf("cut at %d: Read = %w, want %w", cut, err, ErrSilence)
					}
					break
				}
				if n >= whole || !same(got, payloads[n]) {
					return fmt.Errorf("cut at %d: payload %d is %s", cut, n, short(got))
				}
				promised = more
			}
		}
		return nil
	})
}

// checkMore checks that more is reported: without it responses are not coalesced, which costs half
// the speed at 50 callers.
func checkMore(e *env) error {
	const total = 20
	return both(func(d direction) error {
		var out jsonrpc.Burst
		for n := range total {
			out.Add(numbered(n))
		}
		writes, err := d.record(e, out)
		if err != nil {
			return err
		}
		r := d.reader(e, Play(ErrSilence, writes[0]))
		for n := range total {
			more, err := expect(r, numbered(n))
			if err != nil {
				return err
			}
			if want := n < total-1; more != want {
				return fmt.Errorf("payload %d of %d that came together: more is %v, want %v", n+1, total, more, want)
			}
		}
		return nil
	})
}
