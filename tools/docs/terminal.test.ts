// The terminal keeps what a person would see at the end: styles, overwritten lines, cleared rows.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { clipRow, readTerminal, textOf } from './terminal.ts';

const ESC = '\x1b';
const texts = (output: string): string[] => readTerminal(output).map(textOf);

it('reads lines, styles and resets', () => {
  const [first, second] = readTerminal(`${ESC}[1mbold${ESC}[0m plain\r\n${ESC}[31mred${ESC}[39m`);
  assert.deepEqual(first, [
    { text: 'bold', styles: ['bold'] },
    { text: ' plain', styles: [] },
  ]);
  assert.deepEqual(second, [{ text: 'red', styles: ['red'] }]);
});

it('a program that redraws its lines leaves only the last ones', () => {
  assert.deepEqual(texts(`a\r\none\r\ntwo\r\n${ESC}[2A${ESC}[Jthree\r\n`), ['a', 'three', '']);
});

it('what is typed at a prompt stays on its line', () => {
  assert.deepEqual(texts(`${ESC}[1G${ESC}[0Jyes? ${ESC}[6Gy\r\nok`), ['yes? y', 'ok']);
});

it('clips at the column and keeps styles', () => {
  const [row] = readTerminal(`ab${ESC}[32mcdef${ESC}[0m`);
  assert.equal(clipRow(row!, 6), row);
  assert.deepEqual(clipRow(row!, 4), [
    { text: 'ab', styles: [] },
    { text: 'c', styles: ['green'] },
    { text: '…', styles: ['dim'] },
  ]);
});
