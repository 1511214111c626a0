package oauth

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// errProof reports an invalid proof (RFC 9449, section 4.3); errNonce reports a proof without the
// current nonce.
var (
	errProof  = errors.New("oauth: the DPoP proof is not valid")
	errNonce  = errors.New("oauth: the DPoP proof lacks the nonce")
	errReplay = errors.New("oauth: the DPoP proof was used before")
	errFull   = errors.New("oauth: too many DPoP proofs at once")
)

const (
	maxProof  = 8 << 10
	proofAge  = time.Minute // how far a proof's time may differ from our clock, in both directions
	maxProofs = 200_000     // remembered proofs, so that each is used only once
)

// checkProof verifies one proof against its request and token.
func checkProof(proof, method, address, token, thumbprint string, wantNonce func(string) bool, now time.Time) (id string, err error) {
	if len(proof) > maxProof || strings.Count(proof, ".") != 2 {
		return "", errProof
	}
	sig, err := jose.ParseSignedCompact(proof, everyAlgorithm)
	if err != nil || len(sig.Signatures) != 1 {
		return "", errProof
	}
	header := sig.Signatures[0].Protected
	kind, _ := header.ExtraHeaders[jose.HeaderType].(string)
	key := header.JSONWebKey
	if kind != "dpop+jwt" || key == nil || !key.IsPublic() || !fits(jose.SignatureAlgorithm(header.Algorithm), key.Key) {
		return "", errProof
	}
	thumb, err := key.Thumbprint(crypto.SHA256)
	if err != nil || subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(thumb)), []byte(thumbprint)) != 1 {
		return "", errProof
	}
	payload, err := sig.Verify(key.Key)
	if err != nil {
		return "", errProof
	}
	var c struct {
		proofClaims
		IssuedAt float64 `json:"iat"` // may have a fraction
	}
	if decode(payload, &c) != nil || c.ID == "" || len(c.ID) > 256 {
		return "", errProof
	}
	issued := time.UnixMilli(int64(min(c.IssuedAt, 1e11) * 1000))
	switch {
	case c.Method != method, !sameTarget(c.URI, address), c.Token != digest(token):
		return "", errProof
	case now.Sub(issued) > proofAge, issued.Sub(now) > proofAge:
		return "", errProof
	case wantNonce != nil && !wantNonce(c.Nonce):
		return "", errNonce
	}
	return c.ID, nil
}

// sameTarget compares addresses without query and fragment, after normalization (RFC 3986, section
// 6.2).
func sameTarget(a, b string) bool {
	tidy := func(text string) string {
		u, err := url.Parse(text)
		if err != nil || u.RawQuery != "" || u.Fragment != "" || u.Host == "" {
			return ""
		}
		p := u.EscapedPath()
		if p == "" {
			p = "/"
		}
		if strings.Contains(p, "/.") {
			p = path.Clean(p)
		}
		return strings.ToLower(u.Scheme+"://"+hostPort(u)) + p
	}
	t := tidy(a)
	return t != "" && t == tidy(b)
}

// used remembers proofs while they are valid, in two generations. If a generation holds [maxProofs]
// proofs, new proofs are rejected rather than risking that one is used twice.
type used struct {
	mu       sync.Mutex // guards the fields below
	now, old map[[sha256.Size]byte]struct{}
	turned   time.Time
}

// take records a proof. It returns errReplay if the proof was used before.
func (u *used) take(thumbprint, id string, now time.Time) error {
	sum := sha256.Sum256([]byte(thumbprint + " " + id))
	u.mu.Lock()
	defer u.mu.Unlock()
	if age := now.Sub(u.turned); u.now == nil || age > 2*proofAge {
		u.old, u.now = u.now, make(map[[sha256.Size]byte]struct{})
		if age > 4*proofAge {
			u.old = nil
		}
		u.turned = now
	}
	_, inNow := u.now[sum]
	_, inOld := u.old[sum]
	switch {
	case inNow || inOld:
		return errReplay
	case len(u.now) >= maxProofs:
		return errFull
	}
	u.now[sum] = struct{}{}
	return nil
}

// issuedNonces creates nonces without storing them: each is a MAC of the time and is valid for two
// to four minutes.
type issuedNonces struct {
	secret [32]byte
}

const nonceTime = 2 * time.Minute

func newIssuedNonces() *issuedNonces {
	n := new(issuedNonces)
	_, _ = rand.Read(n.secret[:]) // never fails; it would crash the program instead
	return n
}

func (n *issuedNonces) at(turn int64) string {
	mac := hmac.New(sha256.New, n.secret[:])
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(turn))
	mac.Write(b[:])
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:18])
}

// current returns the nonce to send.
func (n *issuedNonces) current(now time.Time) string {
	return n.at(now.Unix() / int64(nonceTime/time.Second))
}

// good reports whether a nonce is the current or the previous one.
func (n *issuedNonces) good(nonce string, now time.Time) bool {
	turn := now.Unix() / int64(nonceTime/time.Second)
	return hmac.Equal([]byte(nonce), []byte(n.at(turn))) || hmac.Equal([]byte(nonce), []byte(n.at(turn-1)))
}
