package page

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// images is the folder of the guides' images.
const images = "../../docs/guides/images"

// shot takes a screenshot of the window.
func (p *tab) shot(name string) {
	p.t.Helper()
	folder := os.Getenv("PARLEY_SHOTS")
	if folder == "" {
		folder = p.t.TempDir()
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		p.t.Fatal(err)
	}
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Errorf("no picture: %v", err)
		return
	}
	file := filepath.Join(folder, strings.ReplaceAll(p.t.Name(), "/", "-")+"-"+name+"-"+p.look.String()+".png")
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// guideImage takes the screenshot that a guide shows, and writes it for the guide if PARLEY_IMAGES
// is set.
func (p *tab) guideImage(name string) {
	p.t.Helper()
	p.shot(name)
	if os.Getenv("PARLEY_IMAGES") == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	small, err := shrink(picture)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.MkdirAll(images, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(images, name+".png"), small, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// near reports whether the distance of two colours is at most apart.
func near(a, b color.RGBA, apart int) bool {
	r, g, l := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return r*r+g*g+l*l <= apart*apart
}

// shrink writes a PNG with a palette of 256 of its colours, which is a third of the size: a page
// has few colours, and the others are shades at the edges of letters.
func shrink(picture []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	count := map[color.RGBA]int{}
	box := full.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(full.At(x, y)).(color.RGBA) }
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	used := make([]color.RGBA, 0, len(count))
	for c := range count {
		used = append(used, c)
	}
	slices.SortFunc(used, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	// First colours that differ much from each other, so that a little red stays red; then the
	// others by frequency.
	palette := make(color.Palette, 0, 256)
	for _, apart := range []int{40, 20, 10, 0} {
		for _, c := range used {
			if len(palette) < 256 && !slices.ContainsFunc(palette, func(p color.Color) bool { return near(c, p.(color.RGBA), apart) }) {
				palette = append(palette, c)
			}
		}
	}
	nearest := make(map[color.RGBA]uint8, len(used))
	for _, c := range used {
		nearest[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(box, palette)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			small.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	return out.Bytes(), err
}

// TestShrink checks that the images in the guides exist and are small.
func TestShrink(t *testing.T) {
	full := image.NewRGBA(image.Rect(0, 0, 64, 64))
	for i := range 64 * 64 {
		full.Set(i%64, i/64, color.RGBA{7, uint8(i), uint8(i >> 4), 255})
	}
	full.Set(0, 63, color.RGBA{255, 0, 7, 255})
	var b bytes.Buffer
	if err := png.Encode(&b, full); err != nil {
		t.Fatal(err)
	}
	small, err := shrink(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	back, err := png.Decode(bytes.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	if back.Bounds() != full.Bounds() {
		t.Errorf("the picture is %v, was %v", back.Bounds(), full.Bounds())
	}
	if p, ok := back.(*image.Paletted); !ok || len(p.Palette) != 256 {
		t.Errorf("it is %T, want 256 colours", back)
	}
	if r, g, _, _ := back.At(0, 63).RGBA(); r>>8 < 240 || g>>8 > 20 {
		t.Errorf("the one red pixel is %v now", back.At(0, 63))
	}
}
