// Translates a shader in WGSL to SPIR-V, with the npm package naga-wasm.
//
//   node naga.mjs PACKAGE SOURCE OUTPUT
//   node naga.mjs PACKAGE --version
//
// PACKAGE is the package's folder. What naga says of a bad shader goes to stderr, and the status is 1.

import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...rest] = process.argv.slice(2);
const naga = await import(pathToFileURL(join(folder, "dist", "node.js")));

if (rest[0] === "--version") {
  console.log(`naga ${naga.nagaVersion}`);
} else {
  try {
    // The names of functions are for debugging, as SPIR-V sees it.
    const debug = rest[0] === "--generate-debug-symbols";
    if (debug) rest.shift();
    if (rest.length !== 2) throw new Error(`flags do nothing here: ${rest.slice(0, -2).join(" ")}`);
    const [source, output] = rest;
    const text = readFileSync(source, "utf8");
    const words = naga.translate({ from: "wgsl", source: text, to: "spirv", options: { flags: { debug } } });
    writeFileSync(output, new Uint8Array(words.buffer, words.byteOffset, words.byteLength));
  } catch (error) {
    // It says where by the language's name, as it does not know the file's.
    const named = (report) => report.replace("┌─ wgsl:", `┌─ ${basename(rest.at(-2) ?? "")}:`);
    console.error(error instanceof naga.NagaError ? named(error.formatted) : error.message);
    process.exitCode = 1;
  }
}
