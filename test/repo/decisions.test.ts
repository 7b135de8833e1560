// The ten questions that the source document left open have decisions, each on its own page with
// the decision, the reasons, the rejected alternatives, and what would change it.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { projectRoot } from './fixture.ts';

/** The subject of each page, in the words of §27. */
const QUESTIONS: [number: number, about: RegExp][] = [
  [1, /HTTP, gRPC or JSON-RPC/],
  [2, /memory schemas/i],
  [3, /JWT, Biscuit, SPIFFE/],
  [4, /policy language/],
  [5, /MCP/],
  [6, /A2A/],
  [7, /vector index/i],
  [8, /sensitive memory/i],
  [9, /packages/],
  [10, /audit/i],
];

test('[R451-R460] every open question has its decision', () => {
  const dir = join(projectRoot, 'docs', 'decisions');
  for (const [number, about] of QUESTIONS) {
    const start = `${String(number).padStart(4, '0')}-`;
    const [name, ...others] = readdirSync(dir).filter((file) => file.startsWith(start));
    assert.ok(name !== undefined && others.length === 0, `one page ${start}…`);
    const text = readFileSync(join(dir, name), 'utf8');
    const question = /\*\*Question\.\*\*([\s\S]*?)\n\n/.exec(text)?.[1] ?? '';
    assert.match(question.replaceAll('\n', ' '), about, name);
    for (const part of ['Decision', 'Why', 'Rejected', 'Would change our mind'])
      assert.match(text, new RegExp(`\\*\\*${part}\\.\\*\\* \\S`), `${name} says: ${part}`);
  }
});
