package demo

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"time"

	"github.com/da1ed7bb/parley/mcp"
)

// The tool weather/daylight_chart returns an image: the days of a year from left to right, the
// hours of each day from top to bottom, light between sunrise and sunset.

type chartRequest struct {
	City string `json:"city" jsonschema:"the name of a city, such as Oslo; weather://cities lists all"`
	Year int    `json:"year,omitzero" jsonschema:"the year, 1900 to 2100; this one if absent" mcp:"min=1900,max=2100"`
}

const (
	chartDay  = 2   // width of a day, in pixels
	chartHigh = 240 // height of a day, in pixels; six minutes per pixel
)

// chartColours are the colours of night, of day, and of a line every six hours.
var chartColours = color.Palette{color.RGBA{0x1b, 0x26, 0x3b, 0xff}, color.RGBA{0xff, 0xd1, 0x66, 0xff}, color.RGBA{0x77, 0x8d, 0xa9, 0xff}}

func addChart(s *mcp.Server) {
	mcp.AddTool(s, mcp.Tool{
		Name:  "weather/daylight_chart",
		Title: "A year of daylight",
		Description: "Draws when it is day and when it is night in a city, for each day of a year: a PNG picture, and one sentence about the shortest and the longest day. " +
			"It is computed and needs no network.",
		Annotations: readsOnly(),
	}, drawChart)
}

func drawChart(ctx context.Context, _ *mcp.Request, in chartRequest) ([]mcp.Content, error) {
	place, err := mustFindCity(in.City)
	if err != nil {
		return nil, err
	}
	year := in.Year
	if year == 0 {
		year = time.Now().In(place.zone()).Year()
	}
	picture, shortest, longest, err := chartOf(ctx, place, year)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("Daylight in %s in %d: from %s to %s a day.", place.Name, year, hours(shortest), hours(longest))
	return []mcp.Content{mcp.Text(text), mcp.Image("image/png", b.Bytes())}, nil
}

func hours(d time.Duration) string {
	d = d.Round(time.Minute)
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// chartOf draws a year, and returns the length of its shortest and longest day.
func chartOf(ctx context.Context, place *city, year int) (picture *image.Paletted, shortest, longest time.Duration, err error) {
	first := time.Date(year, 1, 1, 0, 0, 0, 0, place.zone())
	days := time.Date(year, 12, 31, 0, 0, 0, 0, place.zone()).YearDay()
	picture = image.NewPaletted(image.Rect(0, 0, days*chartDay, chartHigh), chartColours)
	shortest = 24 * time.Hour
	for n := range days {
		if ctx.Err() != nil {
			return nil, 0, 0, context.Cause(ctx)
		}
		day := first.AddDate(0, 0, n)
		sun := sunOn(day, place.Latitude, place.Longitude)
		shortest, longest = min(shortest, sun.Light), max(longest, sun.Light)
		for y := range chartHigh {
			at := day.Add(time.Duration(y) * 24 * time.Hour / chartHigh)
			light := uint8(0)
			if sun.AllDay || !sun.AllDark && (at.After(sun.Rise) && at.Before(sun.Set) || at.Add(24*time.Hour).Before(sun.Set)) {
				light = 1
			} else if y%(chartHigh/4) == 0 && y > 0 {
				light = 2
			}
			for x := range chartDay {
				picture.SetColorIndex(n*chartDay+x, y, light)
			}
		}
	}
	return picture, shortest, longest, nil
}
