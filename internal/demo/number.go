package demo

import (
	"bytes"
	"math/big"
	"strconv"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// maxDigits is the maximum number of decimal digits of a number, before and after the point
// together. JSON has no bound, but 1e999999999 has eleven bytes on the wire and a gigabyte in
// memory.
const maxDigits = 1000

// A Number is a JSON number (RFC 8259, section 6) with its exact decimal value: 9007199254740993
// remains unchanged and 0.1+0.2 is 0.3. Its value is coef × 10^-scale. The zero value is 0.
type Number struct {
	coef  big.Int
	scale int // digits after the point, never negative
}

// Errors of invalid numbers, with texts for the caller. The decoder of the params adds the
// position.
var (
	errNotNumber  = &jsonrpc.ParamFault{Reason: "want a number"}
	errLongNumber = &jsonrpc.ParamFault{Reason: "want a number of at most " + strconv.Itoa(maxDigits) + " digits"}
)

// UnmarshalJSON parses a number. It rejects every other value, including a string that looks like a
// number.
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

// normalize makes scale non-negative and minimal, so that equal numbers print the same.
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

// digits returns an upper bound of the number of digits that String writes. It is at most one too
// high.
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

// Mul returns n × m, exactly.
func (n *Number) Mul(m *Number) *Number {
	product := &Number{scale: n.scale + m.scale}
	product.coef.Mul(&n.coef, &m.coef)
	product.normalize()
	return product
}

// quotientDigits is the number of significant digits of a non-terminating quotient: that of a
// decimal128 (IEEE 754-2008).
const quotientDigits = 34

// Div returns n ÷ m and whether the quotient is exact. A longer quotient is rounded half to even to
// 34 significant digits. m must not be 0.
func (n *Number) Div(m *Number) (quotient *Number, exact bool) {
	// shift makes the integer quotient at least as long as the retained digits.
	shift := max(quotientDigits+m.digits()-(&Number{coef: n.coef}).digits()+2, 0)
	var rest big.Int
	q := &Number{scale: n.scale - m.scale + shift}
	scaled := new(big.Int).Mul(&n.coef, pow10(shift))
	q.coef.QuoRem(scaled, &m.coef, &rest)
	exact = rest.Sign() == 0
	q.normalize()
	if exact && q.significant() <= quotientDigits {
		return q, true
	}
	return q.round(quotientDigits, !exact), false
}

// significant returns the number of digits of the coefficient.
func (n *Number) significant() int { return len(new(big.Int).Abs(&n.coef).String()) }

// round rounds n half to even to the given number of significant digits. more reports whether
// non-zero digits follow those of n.
func (n *Number) round(digits int, more bool) *Number {
	cut := n.significant() - digits
	if cut <= 0 {
		return n
	}
	unit := pow10(cut)
	out := &Number{scale: n.scale - cut}
	var rest big.Int
	out.coef.QuoRem(&n.coef, unit, &rest)
	half := rest.Abs(&rest).Lsh(&rest, 1).Cmp(unit)
	if half > 0 || half == 0 && (more || out.coef.Bit(0) == 1) {
		out.coef.Add(&out.coef, big.NewInt(int64(n.coef.Sign())))
	}
	out.normalize()
	return out
}

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

// String returns n without an exponent, and without a point if it is an integer.
func (n *Number) String() string { return string(n.append(nil)) }

// MarshalJSON returns the text of String.
func (n *Number) MarshalJSON() ([]byte, error) { return n.append(nil), nil }

// AppendJSON implements marshalling for the engine without reflection.
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
