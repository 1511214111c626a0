package parley

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// certCheck is the maximum age of the last check of the certificate's files, so that a change takes
// effect within 10 s.
const certCheck = 5 * time.Second

// A Certificate is a certificate in two PEM files, which are read again when they change. It is
// safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	report            func(what string, err error)

	mu      sync.Mutex // guards the fields below
	loaded  *tls.Certificate
	stamp   [2]fileStamp
	checked time.Time
}

type fileStamp struct {
	modified time.Time
	size     int64
}

// LoadCertificate reads the files. If they become unreadable later, the last certificate stays in
// use, and report, unless it is nil, is called with the reason.
func LoadCertificate(certFile, keyFile string, report func(what string, err error)) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, report: report}
	if err := c.loadLocked(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config returns a server's TLS configuration: TLS 1.2 or later, with this certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}

func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	cert, err := c.currentLocked()
	c.mu.Unlock()
	if err != nil && c.report != nil {
		c.report(ReportCertificate, err)
	}
	return cert, nil
}

// currentLocked returns the certificate to present now; the error is for the log.
func (c *Certificate) currentLocked() (*tls.Certificate, error) {
	if time.Since(c.checked) < certCheck {
		return c.loaded, nil
	}
	c.checked = time.Now()
	stamp, err := c.stat()
	if err != nil || stamp == c.stamp {
		return c.loaded, err
	}
	err = c.loadLocked()
	return c.loaded, err
}

func (c *Certificate) loadLocked() error {
	stamp, err := c.stat()
	if err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	c.loaded, c.stamp, c.checked = &cert, stamp, time.Now()
	return nil
}

func (c *Certificate) stat() (stamp [2]fileStamp, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, statErr := os.Stat(name)
		if statErr != nil {
			err = errors.Join(err, statErr)
			continue
		}
		stamp[i] = fileStamp{info.ModTime(), info.Size()}
	}
	return stamp, err
}
