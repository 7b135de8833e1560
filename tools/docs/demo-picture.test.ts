// The picture shows the chosen lines of each step, and the check sees what is wrong with one.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { drawDemo, findPictureProblem, selectRows } from './demo-picture.ts';
import { readTerminal, textOf } from './terminal.ts';

const steps = { first: '1. One & one <is>', last: '2. Two' };
const headings = Object.values(steps);
const rows = readTerminal(
  [steps.first, 'a 1', 'b 2', '            and more', steps.last, 'c 3', 'a 4'].join('\r\n'),
);
const sections = selectRows(rows, steps, { first: [/^b/], last: [/^a/] });

it('selects lines by step, and marks one whose continuation is left out', () => {
  assert.deepEqual(
    sections.map((section) => section.map(textOf)),
    [
      ['1. One & one <is>', 'b 2 …'],
      ['2. Two', 'a 4'],
    ],
  );
});

it('fails where a step or a line is missing', () => {
  const none = { first: [], last: [] };
  assert.throws(
    () => selectRows(rows, steps, { ...none, last: [/^b/] }),
    /"2\. Two" matches \/\^b/,
  );
  assert.throws(() => selectRows(rows.slice(1), steps, none), /did not print "1\. One/);
});

it('a drawn picture passes the check; a damaged or outdated one does not', () => {
  const svg = drawDemo(headings, sections);
  assert.equal(findPictureProblem(svg, headings), undefined);
  assert.match(svg, />1\. One &amp; one &lt;is&gt;<\/text>/);
  for (const [damaged, problem] of [
    [svg.replace('</text>', ''), /not well-formed/],
    [svg.replace('</svg>', ''), /not well-formed/],
    [svg.replace('&amp;', '&'), /not well-formed/],
    [svg.replace('<circle ', '<circle cx=1 '), /not well-formed/],
    [svg.replace('</style>', '</style><script>1</script>'), /script/],
    [svg.replace('ui-monospace', 'url(x)'), /another file/],
    [svg + ' '.repeat(150_000), /larger than 150 kB/],
  ] as const)
    assert.match(findPictureProblem(damaged, headings) ?? 'no problem', problem);
  assert.match(findPictureProblem(svg, ['1. Other']) ?? '', /other steps/);
});
