package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// A Key signs DPoP proofs (RFC 9449) and client assertions (RFC 7523). It is safe for concurrent
// use.
type Key struct {
	// ID is the kid header of assertions. If empty, the header is omitted.
	ID string

	private   crypto.Signer
	algorithm jose.SignatureAlgorithm
	public    jose.JSONWebKey
	thumb     string
}

// NewKey generates a key for ES256, the algorithm that all DPoP implementations support.
func NewKey() (*Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return KeyOf(private, "ES256")
}

// KeyOf wraps a private RSA, ECDSA or Ed25519 key. algorithm is a name from RFC 7518 or RFC 8037;
// if empty, it is the usual one for the key, RS256 for RSA. Hardware keys, which also implement
// [crypto.Signer], are not supported yet.
func KeyOf(private crypto.Signer, algorithm string) (*Key, error) {
	k := &Key{private: private, algorithm: jose.SignatureAlgorithm(algorithm)}
	k.public = jose.JSONWebKey{Key: private.Public()}
	if k.algorithm == "" {
		k.algorithm = usual(private.Public())
	}
	if !fits(k.algorithm, private.Public()) {
		return nil, fmt.Errorf("oauth: %q is not an algorithm for a %T", safeText(algorithm, 20), private.Public())
	}
	thumb, err := k.public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, errors.New("oauth: a key of an unknown kind")
	}
	k.thumb = base64.RawURLEncoding.EncodeToString(thumb)
	return k, nil
}

// ParseKey parses a private key in PEM format: PKCS #8, PKCS #1 or SEC 1.
func ParseKey(text []byte, algorithm string) (*Key, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("oauth: no PEM block in the key")
	}
	var private any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		private, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		private, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		private, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	signer, ok := private.(crypto.Signer)
	if err != nil || !ok {
		// The parse error may contain parts of the key.
		return nil, errors.New("oauth: no private key in the PEM block")
	}
	return KeyOf(signer, algorithm)
}

// Algorithm returns the signature algorithm, such as "ES256".
func (k *Key) Algorithm() string { return string(k.algorithm) }

// Thumbprint returns the SHA-256 thumbprint of the public key (RFC 7638), which DPoP-bound tokens
// contain as cnf.jkt.
func (k *Key) Thumbprint() string { return k.thumb }

// Public returns the public key as a JWK (RFC 7517), for verifying signatures of the key.
func (k *Key) Public() []byte {
	public := k.public
	public.KeyID, public.Algorithm, public.Use = k.ID, string(k.algorithm), "sig"
	text, _ := public.MarshalJSON() // KeyOf has checked that it encodes
	return text
}

// marshal returns the private key in PEM format.
func (k *Key) marshal() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// sign returns a JWT with the given claims, which must encode as an object.
func (k *Key) sign(claims any, headers map[jose.HeaderKey]any, embed bool) (string, error) {
	payload, err := json.Marshal(claims, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	options := &jose.SignerOptions{EmbedJWK: embed, ExtraHeaders: headers}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: k.private}, options)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// proofClaims is the payload of a proof (RFC 9449, section 4.2).
type proofClaims struct {
	ID       string `json:"jti"`
	Method   string `json:"htm"`
	URI      string `json:"htu"`
	IssuedAt int64  `json:"iat"`
	Token    string `json:"ath,omitempty"`
	Nonce    string `json:"nonce,omitempty"`
}

// proof returns the proof for one request and, if not empty, its token. A proof is used once.
func (k *Key) proof(method, address, token, nonce string) (string, error) {
	target, err := proofTarget(address)
	if err != nil {
		return "", err
	}
	c := proofClaims{ID: random(16), Method: method, URI: target, IssuedAt: time.Now().Unix(), Nonce: nonce}
	if token != "" {
		c.Token = digest(token)
	}
	return k.sign(c, map[jose.HeaderKey]any{jose.HeaderType: "dpop+jwt"}, true)
}

// proofTarget returns the address as used in proofs, without query and fragment.
func proofTarget(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("oauth: not an address")
	}
	t := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	return t.String(), nil
}

// digest returns the base64url text of the SHA-256 of s: ath of a proof, S256 of a code verifier.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// random returns the text of the given number of random bytes.
func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails; it would crash the program instead
	return base64.RawURLEncoding.EncodeToString(b)
}

// nonces stores the last nonce of each origin (RFC 9449, section 8.2). A nonce from one response is
// sent in the next proof.
type nonces struct {
	mu sync.Mutex // guards the fields below
	by map[string]string
}

const (
	maxNonces    = 16 // origins; a client has one server and few authorization servers
	maxNonceText = 512
)

func (n *nonces) get(address string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.by[originOf(address)]
}

func (n *nonces) keep(address string, header http.Header) {
	nonce := header.Get(headerNonce)
	if nonce == "" || len(nonce) > maxNonceText {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	origin := originOf(address)
	if _, known := n.by[origin]; !known && len(n.by) >= maxNonces {
		clear(n.by)
	}
	if n.by == nil {
		n.by = make(map[string]string)
	}
	n.by[origin] = nonce
}

func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}
