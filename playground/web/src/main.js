import { mount } from "svelte";
import "./tokens.css";
import "./page.css";
import App from "./App.svelte";

// What index.html draws while this is read makes room.
const target = document.getElementById("app");
target.replaceChildren();
mount(App, { target });
