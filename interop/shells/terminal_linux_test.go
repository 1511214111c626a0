package shells_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/da1ed7bb/parley/interop/harness"
)

// patience bounds every wait for a shell.
const patience = 60 * time.Second

// A shell is a real shell at a terminal of the test.
type shell struct {
	*testing.T
	name   string
	home   string
	keys   *os.File
	output chan []byte
	seen   bytes.Buffer // everything that was on the screen
	count  int
}

// openTerminal returns both ends of a new terminal.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var unlocked, number int32
	control(t, ours, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	control(t, ours, syscall.TIOCGPTN, unsafe.Pointer(&number))
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	size := [4]uint16{50, 200}
	control(t, ours, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	return ours, theirs
}

func control(t *testing.T, f *os.File, request uintptr, argument unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(argument)); errno != 0 {
		t.Fatalf("terminal: %v", errno)
	}
}

// start starts a shell with parley in its PATH and its state in a folder of the test, and loads the
// completion script.
func start(t *testing.T, argv []string, load ...string) *shell {
	t.Helper()
	program, err := exec.LookPath(argv[0])
	if err != nil {
		t.Fatalf("%s is missing (%v); run: make setup, or apt-get install %s", argv[0], err, argv[0])
	}
	ours, theirs := openTerminal(t)
	home := t.TempDir()
	cmd := exec.Command(program, argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = theirs, theirs, theirs, home
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	path := filepath.Dir(harness.Parley(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	cmd.Env = []string{"PATH=" + path, "HOME=" + home, "XDG_STATE_HOME=" + home, "TERM=xterm", "LANG=C.UTF-8", "LC_ALL=C.UTF-8"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close() // the shell has its own copy
	s := &shell{T: t, name: argv[0], home: home, keys: ours, output: make(chan []byte, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			piece := make([]byte, 4096)
			n, err := ours.Read(piece)
			if err != nil {
				return
			}
			select {
			case s.output <- piece[:n]:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen of %s:\n%s", s.name, plain(s.seen.String()))
		}
		cancel()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // likewise
		_ = ours.Close()       // the reader ends
		<-read
	})
	for _, line := range load {
		s.run(line)
	}
	return s
}

// run types a line, in which \t is the Tab key, and returns what is on the screen until the shell
// has executed it. The shell prints a mark then, which is not in the line as it is typed.
func (s *shell) run(line string) string {
	s.Helper()
	s.count++
	mark := fmt.Sprintf("mark%d.", s.count)
	begin := s.seen.Len()
	if _, err := s.keys.WriteString(line + fmt.Sprintf("; echo mar''k%d.\r", s.count)); err != nil {
		s.Fatal(err)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for !strings.Contains(s.seen.String()[begin:], mark) {
		select {
		case piece := <-s.output:
			s.seen.Write(piece)
			s.answer(piece)
		case <-late.C:
			s.Fatalf("%s does not execute %q", s.name, line)
		}
	}
	return plain(s.seen.String()[begin:])
}

// answer answers the questions of a shell about its terminal, as a terminal does.
func (s *shell) answer(piece []byte) {
	for question, answer := range map[string]string{"\x1b[c": "\x1b[?62;c", "\x1b[0c": "\x1b[?62;c", "\x1b[6n": "\x1b[1;1R"} {
		if bytes.Contains(piece, []byte(question)) {
			if _, err := s.keys.WriteString(answer); err != nil {
				s.Fatal(err)
			}
		}
	}
}

// plain removes control sequences.
func plain(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != 0x1b {
			if text[i] != '\r' {
				b.WriteByte(text[i])
			}
			continue
		}
		i++
		if i < len(text) && (text[i] == '(' || text[i] == ')') { // a set of characters
			i++
			continue
		}
		if i < len(text) && (text[i] == '[' || text[i] == ']') {
			osc := text[i] == ']'
			for i++; i < len(text); i++ {
				if osc && (text[i] == 7 || text[i] == '\\') || !osc && text[i] >= '@' && text[i] <= '~' {
					break
				}
			}
		}
	}
	return b.String()
}
