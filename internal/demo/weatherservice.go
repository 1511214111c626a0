package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// A WeatherService fetches weather data over HTTP with the forecast API that open-meteo.com
// documents, which needs no key: GET with latitude, longitude, start_date, end_date, timezone and
// daily, and the response
//
//	{"daily":{"time":["2026-11-20"],"weather_code":[3],"temperature_2m_max":[8.1],"temperature_2m_min":[2.4],"precipitation_sum":[0.2]}}
type WeatherService struct {
	// URL is the forecast address, such as https://api.open-meteo.com/v1/forecast.
	URL string

	// Client sends the requests. If nil, a client with a timeout of 10 s is used.
	Client *http.Client
}

// weather is the data of one day.
type weather struct {
	Sky     string   `json:"sky" jsonschema:"the weather in words"`
	High    *float64 `json:"high_celsius,omitzero" jsonschema:"the highest temperature"`
	Low     *float64 `json:"low_celsius,omitzero" jsonschema:"the lowest temperature"`
	Rain    *float64 `json:"precipitation_mm,omitzero" jsonschema:"rain and snow together, in millimetres"`
	CodeWMO int      `json:"wmo_code" jsonschema:"the code of the weather (WMO 4677)"`
}

const (
	weatherTime  = 10 * time.Second
	weatherBytes = 1 << 20
)

// ParseWeatherURL checks the address of a service.
func ParseWeatherURL(text string) (*WeatherService, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an http address", text)
	}
	return &WeatherService{URL: text}, nil
}

// daily fetches the days from first to last, and returns the data by date.
func (s *WeatherService) daily(ctx context.Context, place *city, first, last string) (map[string]*weather, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	q.Set("latitude", strconv.FormatFloat(place.Latitude, 'f', -1, 64))
	q.Set("longitude", strconv.FormatFloat(place.Longitude, 'f', -1, 64))
	q.Set("daily", "weather_code,temperature_2m_max,temperature_2m_min,precipitation_sum")
	q.Set("timezone", place.Zone)
	q.Set("start_date", first)
	q.Set("end_date", last)
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	client := s.Client
	if client == nil {
		client = &http.Client{Timeout: weatherTime}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, weatherBytes+1))
	if err != nil {
		return nil, err
	}
	if len(body) > weatherBytes {
		return nil, errors.New("the response is too long")
	}
	return parseWeather(body)
}

func parseWeather(body []byte) (map[string]*weather, error) {
	var in struct {
		Daily struct {
			Time []string   `json:"time"`
			Code []*int     `json:"weather_code"`
			High []*float64 `json:"temperature_2m_max"`
			Low  []*float64 `json:"temperature_2m_min"`
			Rain []*float64 `json:"precipitation_sum"`
		} `json:"daily"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if len(in.Daily.Time) == 0 {
		return nil, errors.New("the response has no days")
	}
	out := make(map[string]*weather, len(in.Daily.Time))
	for i, date := range in.Daily.Time {
		code := at(in.Daily.Code, i)
		if code == nil {
			continue // the service has no data for this day
		}
		out[date] = &weather{Sky: sky(*code), CodeWMO: *code, High: at(in.Daily.High, i), Low: at(in.Daily.Low, i), Rain: at(in.Daily.Rain, i)}
	}
	return out, nil
}

func at[T any](list []*T, i int) *T {
	if i >= len(list) {
		return nil
	}
	return list[i]
}

// sky describes a code of WMO 4677, for the codes used in forecasts.
func sky(code int) string {
	switch {
	case code == 0:
		return "clear"
	case code <= 2:
		return "partly cloudy"
	case code == 3:
		return "overcast"
	case code == 45 || code == 48:
		return "fog"
	case code >= 51 && code <= 57:
		return "drizzle"
	case code >= 61 && code <= 67:
		return "rain"
	case code >= 71 && code <= 77:
		return "snow"
	case code >= 80 && code <= 82:
		return "showers"
	case code == 85 || code == 86:
		return "snow showers"
	case code >= 95 && code <= 99:
		return "thunderstorm"
	}
	return "unknown"
}
