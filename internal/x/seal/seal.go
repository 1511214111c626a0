// Package seal encrypts short texts for clients that hold them and send them back, such as cursors
// and session IDs, and detects when they were changed.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
)

// KeyLength is the length of a key in bytes.
const KeyLength = 32

// A Sealer encrypts with one key (AES-256-GCM). It is safe for concurrent use.
type Sealer struct{ aead cipher.AEAD }

// ErrKey is the error for a key that does not have KeyLength bytes.
var ErrKey = errors.New("seal: a key must have 32 bytes")

// ErrNotOurs is the error for a text that was not sealed with this key and binding.
var ErrNotOurs = errors.New("seal: the text was not sealed here, or was changed")

// New returns a Sealer.
func New(key []byte) (*Sealer, error) {
	if len(key) != KeyLength {
		return nil, ErrKey
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Sealer{aead}, nil
}

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeyLength)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	return key
}

// Seal returns plain as a text of letters, digits, "-" and "_" that only [Sealer.Open] with the
// same binding can read. It has 38 characters plus four thirds of the length of plain.
func (s *Sealer) Seal(plain, binding []byte) string {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, binding))
}

// Open returns what was sealed, or ErrNotOurs. The caller bounds the length of text.
func (s *Sealer) Open(text string, binding []byte) ([]byte, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	n := s.aead.NonceSize()
	if err != nil || len(sealed) < n {
		return nil, ErrNotOurs
	}
	plain, err := s.aead.Open(nil, sealed[:n], sealed[n:], binding)
	if err != nil {
		return nil, ErrNotOurs
	}
	return plain, nil
}
