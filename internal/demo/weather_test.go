package demo

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

func TestForecastWithoutANetwork(t *testing.T) {
	c := connect(t, newMCP(t), 0, nil)
	result, err := c.CallTool(t.Context(), "weather/get_forecast", jsonrpc.Raw(`{"city":"london","date":"2024-06-21","days":2}`), nil)
	if err != nil || result.IsError {
		t.Fatalf("%v %s", err, result.Text())
	}
	var f forecast
	if err := result.Structured.Decode(&f); err != nil {
		t.Fatal(err)
	}
	if f.City != "London" || f.Source != "computed" || !strings.Contains(f.Note, "No weather service is set") || len(f.Days) != 2 {
		t.Errorf("forecast %+v", f)
	}
	day := f.Days[0]
	if !strings.HasPrefix(day.Sunrise, "2024-06-21T04:4") || !strings.HasSuffix(day.Sunset, "+01:00") || day.Season != "summer" || day.Weather != nil || day.Daylight < 990 || day.Daylight > 1000 {
		t.Errorf("day %+v", day)
	}
	for arguments, want := range map[string]string{
		`{"city":"Berln"}`:                             `There is no city "Berln" here. Did you mean Berlin?`,
		`{"city":"Atlantis"}`:                          "There is no city \"Atlantis\" here; the resource weather://cities lists the 50 that are.",
		`{"city":"Oslo","date":"tomorrow"}`:            `"tomorrow" is not a date: use the form 2026-06-21.`,
		`{"city":"Oslo","date":"1066-10-14"}`:          "The year 1066 is out of range: the computation is valid from 1900 to 2100.",
		`{"city":"Oslo","days":8}`:                     "must be at most",
		`{"city":"Oslo","days":0}`:                     "must be at least 1",
		`{"days":1}`:                                   "city",
		`{"city":"Oslo","hour":12}`:                    "hour",
		`{"city":"` + strings.Repeat("x", 9999) + `"}`: "There is no city",
	} {
		if got := tool(t, c, "weather/get_forecast", arguments); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, want) {
			t.Errorf("%.60s: %.200s, want %s", arguments, got, want)
		}
	}
	if got := tool(t, c, "weather/get_forecast", `{"city":"Tromsø","date":"2026-06-21"}`); !strings.Contains(got, `"sun":"up all day"`) || strings.Contains(got, "sunrise") {
		t.Errorf("midsummer in Tromsø: %s", got)
	}
}

// TestForecastWithAService uses a local service with the API of open-meteo.
func TestForecastWithAService(t *testing.T) {
	asked := make(chan string, 1)
	answer := func(w http.ResponseWriter) {
		fmt.Fprint(w, `{"latitude":52.52,"daily_units":{"temperature_2m_max":"°C"},"daily":{"time":["2026-11-20","2026-11-21"],`+
			`"weather_code":[3,61],"temperature_2m_max":[8.1,null],"temperature_2m_min":[2.4,1.0],"precipitation_sum":[0.0,12.5]}}`)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.RawQuery
		answer(w)
	}))
	defer server.Close()
	service, err := ParseWeatherURL(server.URL + "/v1/forecast?apikey=k")
	if err != nil {
		t.Fatal(err)
	}
	var reported []string
	m := NewMCP("test", &MCPOptions{Weather: service, Report: func(what string, err error) { reported = append(reported, what) }})
	defer m.Close()
	c := connect(t, m, 0, nil)
	got := tool(t, c, "weather/get_forecast", `{"city":"Berlin","date":"2026-11-20","days":2}`)
	for _, want := range []string{`"source":"service"`, `"sky":"overcast"`, `"high_celsius":8.1`, `"sky":"rain"`, `"precipitation_mm":12.5`, `"sunrise"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the forecast has no %s: %s", want, got)
		}
	}
	query := <-asked
	for _, want := range []string{"latitude=52.52", "longitude=13.41", "timezone=Europe%2FBerlin", "start_date=2026-11-20", "end_date=2026-11-21", "apikey=k", "daily=weather_code%2C"} {
		if !strings.Contains(query, want) {
			t.Errorf("the question has no %s: %s", want, query)
		}
	}
	// If the service fails, the forecast omits the weather.
	for name, bad := range map[string]func(w http.ResponseWriter){
		"status":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
		"garbage": func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") },
		"no days": func(w http.ResponseWriter) { fmt.Fprint(w, "{}") },
		"endless": func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"daily":{"time":["2026-11-20"],"weather_code":[3]}}`, strings.Repeat(" ", weatherBytes))
		},
	} {
		answer, reported = bad, nil
		got := tool(t, c, "weather/get_forecast", `{"city":"Berlin","date":"2026-11-20"}`)
		<-asked
		if !strings.Contains(got, `"source":"computed"`) || !strings.Contains(got, noteFailed) || len(reported) != 1 {
			t.Errorf("%s: %s, reported %q", name, got, reported)
		}
	}
	for _, bad := range []string{"", "ftp://x/", "//host/path", "::"} {
		if _, err := ParseWeatherURL(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestDaylightChart checks that the image is a PNG in which each column has as much light as its
// day.
func TestDaylightChart(t *testing.T) {
	c := connect(t, newMCP(t), 0, nil)
	result, err := c.CallTool(t.Context(), "weather/daylight_chart", jsonrpc.Raw(`{"city":"Oslo","year":2024}`), nil)
	if err != nil || result.IsError || len(result.Content) != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	if want := "Daylight in Oslo in 2024: from 5 h 5"; !strings.HasPrefix(result.Text(), want) {
		t.Errorf("text %s, want %s…", result.Text(), want)
	}
	picture, err := png.Decode(bytes.NewReader(result.Content[1].Data))
	if err != nil || result.Content[1].MIMEType != "image/png" {
		t.Fatal(err)
	}
	if size := picture.Bounds().Size(); size.X != 366*chartDay || size.Y != chartHigh {
		t.Errorf("the picture is %v", size)
	}
	light := func(day int) time.Duration {
		n := 0
		for y := range chartHigh {
			if picture.At((day-1)*chartDay, y) == chartColours[1] {
				n++
			}
		}
		return time.Duration(n) * 24 * time.Hour / chartHigh
	}
	oslo := findCity("oslo")
	for _, day := range []int{1, 80, 173, 300} {
		want := sunOn(time.Date(2024, 1, day, 0, 0, 0, 0, oslo.zone()), oslo.Latitude, oslo.Longitude).Light
		if off := light(day) - want; off.Abs() > 7*time.Minute {
			t.Errorf("day %d has %v of light, want %v", day, light(day), want)
		}
	}
	if got := tool(t, c, "weather/daylight_chart", `{"city":"Tromsø","year":2026}`); got != "Daylight in Tromsø in 2026: from 0 h 0 min to 24 h 0 min a day." {
		t.Errorf("Tromsø: %s", got)
	}
}

func TestWeatherResources(t *testing.T) {
	// The fake clock starts at midnight on 1 January 2000 in Greenwich.
	synctest.Test(t, func(t *testing.T) {
		m := NewMCP("test", nil)
		defer m.Close()
		c := connect(t, m, 0, nil)
		defer c.Close()
		read, err := c.ReadResource(t.Context(), "weather://sun/Troms%C3%B8", nil)
		if err != nil || read.Contents[0].Text != "In Tromsø the sun does not rise today." {
			t.Errorf("%v, %v", read, err)
		}
		read, err = c.ReadResource(t.Context(), "weather://sun/london", nil)
		if err != nil || !strings.HasPrefix(read.Contents[0].Text, "In London the sun rises at 08:0") {
			t.Errorf("%v, %v", read, err)
		}
		if _, err := c.ReadResource(t.Context(), "weather://sun/Atlantis", nil); err == nil {
			t.Error("there is a sun over Atlantis")
		}
		all, err := c.ReadResource(t.Context(), "weather://cities", nil)
		if err != nil || !strings.Contains(all.Contents[0].Text, `"Zurich"`) {
			t.Errorf("%v, %v", all, err)
		}
		found, err := c.Complete(t.Context(), &mcp.CompleteParams{Ref: mcp.Reference{Type: mcp.RefResource, URI: "weather://sun/{city}"},
			Argument: mcp.CompleteArgument{Name: "city", Value: "rey"}})
		if err != nil || len(found.Values) != 1 || found.Values[0] != "Reykjavík" {
			t.Errorf("%v, %v", found, err)
		}
	})
}

// FuzzParseWeather parses arbitrary bytes, because the service is not trusted.
func FuzzParseWeather(f *testing.F) {
	for _, seed := range []string{`{"daily":{"time":["2026-11-20"],"weather_code":[3]}}`, `{"daily":{"time":["a","b"],"weather_code":[null]}}`, `{}`, `[]`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		days, err := parseWeather(body)
		if err == nil && days == nil {
			t.Error("neither days nor an error")
		}
		for date, w := range days {
			if w == nil || w.Sky == "" {
				t.Errorf("%s: %+v", date, w)
			}
		}
	})
}
