// How the page is built: all modules and styles in one file, dist/index.html, which loads nothing else.
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

export default defineConfig({
  plugins: [viteSingleFile()],
  build: {
    target: "es2022",
    reportCompressedSize: false,
    // The preload helper is only for pages of several files.
    modulePreload: false,
  },
});
