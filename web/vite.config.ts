import { readFileSync } from "node:fs";
import { type Plugin, defineConfig } from "vite";

// The packages whose code is in the script. Their licence wants its text wherever the code is.
const PACKAGES = ["preact", "@preact/signals", "@preact/signals-core", "uplot"];

function addLicences(): Plugin {
  const licence = (name: string) => {
    const folder = `node_modules/${name}`;
    const { version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
    return `${name} ${version}\n\n${readFileSync(`${folder}/LICENSE`, "utf8").trim()}`;
  };
  return {
    name: "add-licences",
    enforce: "post",
    generateBundle(_, bundle) {
      const script = bundle["app.js"];
      if (script?.type === "chunk") script.code = `/*! This file holds code of:\n\n${PACKAGES.map(licence).join("\n\n")}\n*/\n${script.code}`;
    },
  };
}

// A report is one HTML file that holds this script and this style. These words would
// end the script or style element, or change how a browser reads it.
const FORBIDDEN = { "app.js": /<\/script|<script|<!--/i, "app.css": /<\/style|url\(|@import/i };

function checkInlining(): Plugin {
  return {
    name: "check-inlining",
    enforce: "post",
    generateBundle(_, bundle) {
      const names = Object.keys(bundle).sort().join(", ");
      if (names !== "app.css, app.js") this.error(`The build must give app.js and app.css, but gives ${names}.`);
      for (const [name, pattern] of Object.entries(FORBIDDEN)) {
        const file = bundle[name];
        const text = file.type === "chunk" ? file.code : String(file.source);
        const found = pattern.exec(text);
        if (found) this.error(`${name} must not hold “${found[0]}”, because the report has it inline.`);
      }
    },
  };
}

export default defineConfig({
  plugins: [addLicences(), checkInlining()],
  publicDir: false,
  build: {
    outDir: process.env.WEB_OUT ?? "dist",
    emptyOutDir: false,
    target: "es2022",
    sourcemap: false,
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: true,
    rollupOptions: {
      input: "src/main.tsx",
      output: { format: "iife", entryFileNames: "app.js", assetFileNames: "app.[ext]" },
    },
  },
  test: { include: ["test/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
