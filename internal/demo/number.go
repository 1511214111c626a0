package demo

import (
	"bytes"
	"math/big"
	"strconv"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// maxDigits bounds a number, in decimal digits before and after the point together. JSON has no bound, but 1e999999999
// is eleven bytes on the wire and a gigabyte in memory.
const maxDigits = 1000

// A Number is a JSON number (RFC 8259, section 6) that keeps its exact decimal value: 9007199254740993 stays what it is
// and 0.1+0.2 is 0.3. It is coef × 10^-scale. The zero value is 0.
type Number struct {
	coef  big.Int
	scale int // digits behind the point, never negative
}

// What does not fit, as the caller is told; whoever decodes the params adds where.
var (
	errNotNumber  = &jsonrpc.ParamFault{Reason: "want a number"}
	errLongNumber = &jsonrpc.ParamFault{Reason: "want a number of at most " + strconv.Itoa(maxDigits) + " digits"}
)

// UnmarshalJSON reads a number and refuses every other value, also a string that looks like one.
func (n *Number) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return errNotNumber
	}
	mantissa, exponent, _ := bytes.Cut(bytes.ToLower(text), []byte{'e'})
	whole, fraction, _ := bytes.Cut(mantissa, []byte{'.'})
	fraction = bytes.TrimRight(fraction, "0")

	exp := 0
	if len(exponent) > 0 {
		var err error
		if exp, err = strconv.Atoi(string(exponent)); err != nil || exp > maxDigits*2 || exp < -maxDigits*2 {
			return errLongNumber
		}
	}
	if len(whole)+len(fraction) > maxDigits {
		return errLongNumber
	}
	digits := string(whole) + string(fraction)
	if _, ok := n.coef.SetString(digits, 10); !ok {
		return errNotNumber
	}
	n.scale = len(fraction) - exp
	n.normalize()
	if n.digits() > maxDigits {
		return errLongNumber
	}
	return nil
}

// normalize makes scale non-negative and as small as it can be, so that equal numbers print the same.
func (n *Number) normalize() {
	if n.coef.Sign() == 0 {
		n.scale = 0
		return
	}
	if n.scale < 0 {
		n.coef.Mul(&n.coef, pow10(-n.scale))
		n.scale = 0
	}
	var quotient, rest big.Int
	for ten := big.NewInt(10); n.scale > 0; n.scale-- {
		if quotient.QuoRem(&n.coef, ten, &rest); rest.Sign() != 0 {
			return
		}
		n.coef.Set(&quotient)
	}
}

// digits is an upper bound, one too high at most, of the digits that String writes.
func (n *Number) digits() int {
	return max(n.coef.BitLen()*30103/100000+1, n.scale)
}

func pow10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// Add returns n + m, exactly.
func (n *Number) Add(m *Number) *Number { return n.combine(m, (*big.Int).Add) }

// Sub returns n - m, exactly.
func (n *Number) Sub(m *Number) *Number { return n.combine(m, (*big.Int).Sub) }

func (n *Number) combine(m *Number, op func(z, x, y *big.Int) *big.Int) *Number {
	a, b := &n.coef, &m.coef
	scale := max(n.scale, m.scale)
	if n.scale < scale {
		a = new(big.Int).Mul(a, pow10(scale-n.scale))
	}
	if m.scale < scale {
		b = new(big.Int).Mul(b, pow10(scale-m.scale))
	}
	sum := &Number{scale: scale}
	op(&sum.coef, a, b)
	sum.normalize()
	return sum
}

// String writes n without an exponent, and without a point where it is an integer.
func (n *Number) String() string { return string(n.append(nil)) }

// MarshalJSON writes what String writes.
func (n *Number) MarshalJSON() ([]byte, error) { return n.append(nil), nil }

// AppendJSON is MarshalJSON for the engine, without reflection.
func (n *Number) AppendJSON(dst []byte) ([]byte, error) { return n.append(dst), nil }

func (n *Number) append(dst []byte) []byte {
	if n.scale == 0 {
		return n.coef.Append(dst, 10)
	}
	digits := n.coef.Text(10)
	if n.coef.Sign() < 0 {
		dst, digits = append(dst, '-'), digits[1:]
	}
	for len(digits) <= n.scale {
		digits = "0" + digits
	}
	point := len(digits) - n.scale
	dst = append(dst, digits[:point]...)
	dst = append(dst, '.')
	return append(dst, digits[point:]...)
}
