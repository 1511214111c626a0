import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The page is served under any path, from one folder, with a policy that allows no inline script or style.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2023",
    cssTarget: ["chrome125", "firefox125", "safari18"],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
    license: { fileName: "licenses.txt" },
  },
});
