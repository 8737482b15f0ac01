// Makes a component of memos.js: node build.js WIT OUT
import { readFile, writeFile } from 'node:fs/promises';
import { componentize } from '@bytecodealliance/componentize-js';

const [wit, out] = process.argv.slice(2);
const { component } = await componentize(await readFile('memos.js', 'utf8'), {
  witPath: wit,
  worldName: 'stored',
  // A plugin is pure: no clock, no randomness, no network, nobody reads its output.
  disableFeatures: ['random', 'clocks', 'http', 'fetch-event', 'stdio'],
});
await writeFile(out, component);
