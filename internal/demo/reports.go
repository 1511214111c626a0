package demo

// What the services of the demo report themselves.
const (
	reportWeather = "weather service" // it did not respond, and the forecast is computed
	reportStderr  = "wrote on stderr" // the error starts with the name of the program
)
