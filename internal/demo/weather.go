package demo

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/mcp"
)

// The service weather returns a forecast that needs no network, since the position of the sun can
// be computed. If a weather service is configured, the forecast includes its data.

// A forecastRequest is the input of weather/get_forecast.
type forecastRequest struct {
	City string `json:"city" jsonschema:"the name of a city, such as Berlin; weather://cities lists all"`
	Date string `json:"date,omitzero" jsonschema:"the first day as YYYY-MM-DD, in the city's own calendar; today if absent"`
	Days int    `json:"days,omitzero" jsonschema:"how many days, 1 to 7; 1 if absent" mcp:"min=1,max=7"`
}

// A forecast is the result of weather/get_forecast.
type forecast struct {
	City     string        `json:"city" jsonschema:"the city that was found"`
	Country  string        `json:"country" jsonschema:"its country"`
	Timezone string        `json:"timezone" jsonschema:"the time zone of all times"`
	Source   string        `json:"source" jsonschema:"computed: the sun only, without a weather service; service: with its weather" mcp:"enum=computed|service"`
	Note     string        `json:"note" jsonschema:"what this forecast includes"`
	Days     []forecastDay `json:"days" jsonschema:"one entry for each day"`
}

// A forecastDay is one day of a forecast.
type forecastDay struct {
	Date     string   `json:"date" jsonschema:"the day, YYYY-MM-DD"`
	Sunrise  string   `json:"sunrise,omitzero" jsonschema:"when the sun's upper edge appears (RFC 3339); absent when it does not rise or set"`
	Sunset   string   `json:"sunset,omitzero" jsonschema:"when it disappears (RFC 3339); absent when it does not rise or set"`
	Daylight int      `json:"daylight_minutes" jsonschema:"minutes from sunrise to sunset"`
	Sun      string   `json:"sun" jsonschema:"rises and sets, or one of the two all day long" mcp:"enum=rises and sets|up all day|down all day"`
	Season   string   `json:"season" jsonschema:"the astronomical season; none near the equator" mcp:"enum=spring|summer|autumn|winter|none"`
	Weather  *weather `json:"weather,omitzero" jsonschema:"the weather from the weather service; absent without one"`
}

const (
	noteComputed = "Computed from the position of the sun, to about a minute. No weather service is set; use parley demo --weather-url."
	noteService  = "The sun is computed. The weather is that of the weather service."
	noteFailed   = "Computed from the position of the sun, to about a minute. The weather service could not be reached."
)

// maxDays is the maximum number of days of one forecast.
const maxDays = 7

type weatherTools struct {
	service *WeatherService // nil if not configured
	report  func(what string, err error)
}

func addWeather(s *mcp.Server, service *WeatherService, report func(what string, err error)) error {
	w := &weatherTools{service: service, report: report}
	mcp.AddTool(s, mcp.Tool{
		Name:  "weather/get_forecast",
		Title: "Forecast",
		Description: "Returns sunrise, sunset, the length of the day and the season of a city, for up to seven days. " +
			"They are computed without a network. With a weather service the result also has the weather; its source member shows which.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: new(false), IdempotentHint: true, OpenWorldHint: new(service != nil)},
	}, w.forecast)
	addChart(s)
	if err := s.AddResource(mcp.Resource{
		URI:         "weather://cities",
		Name:        "cities",
		Title:       "Cities",
		Description: fmt.Sprintf("The %d cities that weather/get_forecast supports, with their coordinates.", len(cities)),
		MIMEType:    "application/json",
	}, func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		return jsonResource(r, cities)
	}); err != nil {
		return err
	}
	return s.AddTemplate(mcp.ResourceTemplate{
		URITemplate: "weather://sun/{city}",
		Name:        "sun",
		Title:       "The sun over a city, today",
		Description: "Sunrise, sunset and the length of the day in one city, today, as one sentence.",
		MIMEType:    "text/plain",
	}, w.today, map[string]mcp.CompleteFunc{"city": completeCity})
}

// completeCity completes city names, ignoring accents.
func completeCity(_ context.Context, _ *mcp.Request, typed string, _ map[string]string) (*mcp.Completion, error) {
	c := &mcp.Completion{Values: []string{}}
	for _, city := range cities {
		if strings.HasPrefix(plain(city.Name), plain(typed)) {
			c.Values = append(c.Values, city.Name)
		}
	}
	return c, nil
}

func (w *weatherTools) forecast(ctx context.Context, _ *mcp.Request, in forecastRequest) (*forecast, error) {
	place, err := mustFindCity(in.City)
	if err != nil {
		return nil, err
	}
	zone := place.zone()
	first := time.Now().In(zone)
	if in.Date != "" {
		if first, err = time.ParseInLocation(time.DateOnly, in.Date, zone); err != nil {
			return nil, mcp.Errorf("%q is not a date: use the form 2026-06-21.", in.Date)
		}
		if y := first.Year(); y < 1900 || y > 2100 {
			return nil, mcp.Errorf("The year %d is out of range: the computation is valid from 1900 to 2100.", y)
		}
	}
	n := max(in.Days, 1)
	out := &forecast{City: place.Name, Country: place.Country, Timezone: place.Zone, Source: "computed", Note: noteComputed}
	for i := range min(n, maxDays) {
		out.Days = append(out.Days, dayOf(place, first.AddDate(0, 0, i)))
	}
	if w.service == nil {
		return out, nil
	}
	days, err := w.service.daily(ctx, place, out.Days[0].Date, out.Days[len(out.Days)-1].Date)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		w.report(reportWeather, err)
		out.Note = noteFailed
		return out, nil
	}
	out.Source, out.Note = "service", noteService
	for i := range out.Days {
		out.Days[i].Weather = days[out.Days[i].Date]
	}
	return out, nil
}

func mustFindCity(name string) (*city, error) {
	if c := findCity(name); c != nil {
		return c, nil
	}
	if near := nearCities(name); len(near) > 0 {
		return nil, mcp.Errorf("There is no city %q here. Did you mean %s?", name, strings.Join(near, " or "))
	}
	return nil, mcp.Errorf("There is no city %q here; the resource weather://cities lists the %d that are.", name, len(cities))
}

func dayOf(place *city, day time.Time) forecastDay {
	sun := sunOn(day, place.Latitude, place.Longitude)
	d := forecastDay{
		Date:     day.Format(time.DateOnly),
		Daylight: int(math.Round(sun.Light.Minutes())),
		Sun:      "rises and sets",
		Season:   seasonAt(sun.Noon, place.Latitude),
	}
	switch {
	case sun.AllDay:
		d.Sun = "up all day"
	case sun.AllDark:
		d.Sun = "down all day"
	default:
		d.Sunrise = sun.Rise.Round(time.Minute).Format(time.RFC3339)
		d.Sunset = sun.Set.Round(time.Minute).Format(time.RFC3339)
	}
	return d
}

// today serves the template weather://sun/{city}.
func (w *weatherTools) today(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
	place := findCity(r.Variables["city"])
	if place == nil {
		return nil, mcp.NoResource()
	}
	return mcp.TextResource(r, "text/plain", sentence(place, time.Now())), nil
}

// sentence describes the sun's day in words.
func sentence(place *city, now time.Time) string {
	sun := sunOn(now.In(place.zone()), place.Latitude, place.Longitude)
	switch {
	case sun.AllDay:
		return "In " + place.Name + " the sun does not set today."
	case sun.AllDark:
		return "In " + place.Name + " the sun does not rise today."
	}
	light := sun.Light.Round(time.Minute)
	return fmt.Sprintf("In %s the sun rises at %s and sets at %s: %d h %d min of day.", place.Name,
		sun.Rise.Round(time.Minute).Format("15:04"), sun.Set.Round(time.Minute).Format("15:04"), int(light.Hours()), int(light.Minutes())%60)
}
