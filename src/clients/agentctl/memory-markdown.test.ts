// Markdown as memories: what becomes one of them, and that an export is read back as it was.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MemoryView } from '../../wire/memoryd/records.ts';
import { readMarkdown, writeMarkdown } from './memory-markdown.ts';

const texts = (markdown: string): string[] => readMarkdown(markdown).map(({ text }) => text);

test('each list item and each paragraph is one text, with the headings above it', () => {
  const file = `# CLAUDE.md

Be brief.

## Build

- Use \`make test\`,
  never npm test.
- [x] Format with biome
  1. on save
* Commit often

### Release

1. Tag it
2) Push it

## People
Ann leads.
She is in Rome.
`;
  assert.deepEqual(texts(file), [
    'CLAUDE.md: Be brief.',
    'CLAUDE.md: Build: Use `make test`,\n  never npm test.',
    'CLAUDE.md: Build: Format with biome\n  1. on save',
    'CLAUDE.md: Build: Commit often',
    'CLAUDE.md: Build: Release: Tag it',
    'CLAUDE.md: Build: Release: Push it',
    'CLAUDE.md: People: Ann leads.\nShe is in Rome.',
  ]);
  assert.deepEqual(
    readMarkdown(file).map(({ line }) => line),
    [3, 7, 9, 11, 15, 16, 19],
  );
});

test('code blocks stay whole, and nothing is read as a heading or an item in them', () => {
  assert.deepEqual(texts('Run:\n```sh\n# a comment\n\n- not an item\n```\n\nDone.\n'), [
    'Run:\n```sh\n# a comment\n\n- not an item\n```',
    'Done.',
  ]);
  assert.deepEqual(texts(''), []);
  assert.deepEqual(texts('# Only a heading\n\n'), []);
});

test('an export is a list per scope and class', () => {
  const memory = (scope: string, text: string) =>
    ({ scope, class: 'semantic', text }) as MemoryView;
  const written = writeMarkdown([memory('team', 'One.\nTwo.'), memory('project:app', 'Three.')]);
  assert.equal(
    written,
    '# project:app\n\n## semantic\n\n- Three.\n\n# team\n\n## semantic\n\n- One.\n  Two.\n',
  );
  assert.equal(writeMarkdown([]), '');
  assert.equal(texts(written).length, 2);
});
