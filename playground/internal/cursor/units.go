package cursor

// Editors in browsers count positions in UTF-16 code units.

// Units converts an offset in bytes to one in UTF-16 code units.
func Units(text []byte, offset int) int {
	n := 0
	for _, r := range string(text[:min(max(offset, 0), len(text))]) {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// Offset converts an offset in UTF-16 code units to one in bytes.
func Offset(text string, units int) int {
	n := 0
	for i, r := range text {
		if n >= units {
			return i
		}
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return len(text)
}
