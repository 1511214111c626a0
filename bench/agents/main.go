// Command agents measures how long it takes to query the capabilities of twenty agents at one
// address: in one batch, by twenty single calls, and by one list; in memory, and with the delay
// between two cities.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

const count = 20

func main() {
	rounds := flag.Int("rounds", 21, "rounds of each")
	delay := flag.Duration("delay", 10*time.Millisecond, "the one-way delay of the far server")
	flag.Parse()
	if err := run(*rounds, *delay); err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	}
}

// A slow transport delays what is read, like a long distance, without a limit on the data in
// transit.
type slow struct {
	jsonrpc.Transport
	delay time.Duration
	trips *trips
	queue chan arrival
	once  sync.Once
}

type arrival struct {
	payload []byte
	err     error
	due     time.Time
}

// trips counts the round trips of a client: a write starts a new one if all earlier messages have a
// response.
type trips struct {
	mu    sync.Mutex // guards the fields below
	count int
	open  bool
}

func (s *slow) pump() {
	for {
		payload, _, err := s.Transport.Read()
		s.queue <- arrival{slices.Clone(payload), err, time.Now().Add(2 * s.delay)}
		if err != nil {
			return
		}
	}
}

func (s *slow) Read() ([]byte, bool, error) {
	s.once.Do(func() { go s.pump() })
	a := <-s.queue
	time.Sleep(time.Until(a.due))
	s.trips.mu.Lock()
	s.trips.open = false
	s.trips.mu.Unlock()
	return a.payload, false, a.err
}

func (s *slow) note() {
	s.trips.mu.Lock()
	defer s.trips.mu.Unlock()
	if !s.trips.open {
		s.trips.count++
		s.trips.open = true
	}
}

func (s *slow) Write(b jsonrpc.Burst) error   { s.note(); return s.Transport.Write(b) }
func (s *slow) TryWrite(b jsonrpc.Burst) bool { s.note(); return s.Transport.TryWrite(b) }

func run(rounds int, delay time.Duration) error {
	fmt.Printf("| %d agents | round trips | near | %v away |\n|---|--:|--:|--:|\n", count, delay)
	ways := []struct {
		name string
		ask  func(ctx context.Context, c *acp.Client, names []string) error
	}{
		{"one after the other", func(ctx context.Context, c *acp.Client, names []string) error {
			for _, name := range names {
				if _, err := c.Agent(ctx, name); err != nil {
					return err
				}
			}
			return nil
		}},
		{"single calls at the same time", func(ctx context.Context, c *acp.Client, names []string) error {
			errs := make([]error, len(names))
			var wg sync.WaitGroup
			for i, name := range names {
				wg.Go(func() { _, errs[i] = c.Agent(ctx, name) })
			}
			wg.Wait()
			return errors.Join(errs...)
		}},
		{"one batch", func(ctx context.Context, c *acp.Client, names []string) error {
			found, err := c.AgentsNamed(ctx, names...)
			for _, f := range found {
				err = errors.Join(err, f.Err)
			}
			return err
		}},
		{"one list", func(ctx context.Context, c *acp.Client, _ []string) error {
			_, err := c.Agents(ctx)
			return err
		}},
	}
	for _, way := range ways {
		var times [2]time.Duration
		var n int
		for i, d := range []time.Duration{0, delay} {
			var err error
			if times[i], n, err = measure(rounds, d, way.ask); err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
		}
		fmt.Printf("| %s | %d | %.2f ms | %.1f ms |\n", way.name, n, ms(times[0]), ms(times[1]))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// measure returns the median time of some rounds, and the number of round trips of one.
func measure(rounds int, delay time.Duration, ask func(context.Context, *acp.Client, []string) error) (time.Duration, int, error) {
	s := acp.NewServer(nil)
	var names []string
	for i := range count {
		names = append(names, fmt.Sprint("agent-", i))
		s.Add(acp.Agent{
			Manifest: acp.AgentManifest{Name: names[i], Description: "One of many.", InputContentTypes: []string{"text/plain"}, OutputContentTypes: []string{"text/plain"}},
			Run:      func(context.Context, *acp.Job) error { return nil },
		})
	}
	here, there := inproc.Pipe(nil)
	ctx := context.Background()
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ctx, there) })
	t := &trips{}
	c := acp.Connect(ctx, &slow{Transport: here, delay: delay, trips: t, queue: make(chan arrival, 1000)}, nil)
	defer func() {
		_ = c.Close()
		_ = s.Close()
		serving.Wait()
	}()
	var all []time.Duration
	for range rounds {
		begin := time.Now()
		if err := ask(ctx, c, names); err != nil {
			return 0, 0, err
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	return all[len(all)/2], t.count / rounds, nil
}
