package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// strong lists the algorithms accepted by default. It contains no algorithm with a shared secret,
// and never "none".
var strong = []string{"ES256", "EdDSA", "RS256", "PS256"}

// curves maps each ECDSA algorithm to the size of its curve in bits.
var curves = map[jose.SignatureAlgorithm]int{jose.ES256: 256, jose.ES384: 384, jose.ES512: 521}

// usual returns the default algorithm of a public key, or "" for an unsupported key.
func usual(public crypto.PublicKey) jose.SignatureAlgorithm {
	switch public := public.(type) {
	case *rsa.PublicKey:
		return jose.RS256
	case ed25519.PublicKey:
		return jose.EdDSA
	case *ecdsa.PublicKey:
		for algorithm, bits := range curves {
			if public.Curve.Params().BitSize == bits {
				return algorithm
			}
		}
	}
	return ""
}

// fits reports whether a key may be used with an algorithm: its kind, its curve, and at least 2048
// bits for RSA.
func fits(algorithm jose.SignatureAlgorithm, public crypto.PublicKey) bool {
	switch public := public.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= 2048 && slices.Contains([]jose.SignatureAlgorithm{
			jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}, algorithm)
	case ed25519.PublicKey:
		return algorithm == jose.EdDSA
	case *ecdsa.PublicKey:
		return curves[algorithm] != 0 && curves[algorithm] == public.Curve.Params().BitSize
	}
	return false
}

// asymmetric reports whether an algorithm uses a public key.
func asymmetric(algorithm string) bool {
	return slices.Contains([]string{"ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"}, algorithm)
}
