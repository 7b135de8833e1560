// Tests which places get the marks of a run and which places mark it, for each kind of workspace.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { deriveId } from '../../../platform/ids.ts';
import type { CallId, Label, TaskId } from '../../../wire/primitives.ts';
import type { ToolRun } from '../runs.ts';
import type { Tool } from '../tools/tool.ts';
import { makeMarks } from './marks.ts';

const TREE = deriveId<TaskId>('task', 'tree');
const callId = deriveId<CallId>('call', 'one');
const writer = { name: 'file.write', box: 'write', reversibility: 'reversible' } as Tool;

function start(more: Partial<ToolRun>, places: Record<string, Label[]> = {}) {
  const written: string[][] = [];
  const run = {
    rootTaskId: TREE,
    layers: [TREE],
    labels: new Set<Label>(),
    mode: 'live',
    ...more,
  } as ToolRun;
  const marks = makeMarks({
    agentd: {
      runMarks: async () => ({ labels: [...run.labels] }),
      toolMark: async ({ body }: { body: { labels: Label[] } }) => ({ labels: body.labels }),
    } as never,
    store: {
      placeMarks: async (of) => of.flatMap((place) => places[place] ?? []),
      markPlaces: async (of) => void written.push([...of]),
    },
    onMarked: async () => {},
    hasReceived: async () => true,
    listEgressRuns: () => [],
  });
  return { run, marks, written };
}

const WORKSPACES: [string, Partial<ToolRun>, string[], string[]][] = [
  ['its own directory', { workspace: null, isLayered: false }, [TREE], [TREE]],
  [
    'a live directory',
    { workspace: '/srv/w', isLayered: false },
    [TREE, '/srv/w'],
    [TREE, '/srv/w'],
  ],
  ['a layer over a directory', { workspace: '/srv/w', isLayered: true }, [TREE, '/srv/w'], [TREE]],
];

for (const [what, workspace, read, written] of WORKSPACES)
  describe(`a run in ${what}`, () => {
    it(`gets the marks of ${read.length} places`, async () => {
      for (const place of [TREE, '/srv/w']) {
        const { run, marks } = start(workspace, { [place]: ['secret'] });
        await marks.markBeforeCall({ run, callId, tool: writer });
        assert.equal(run.labels.has('secret'), read.includes(place), place);
        const seen = await marks.marksFor(start(workspace).run, writer);
        assert.equal(seen.includes('secret'), read.includes(place), place);
      }
    });

    it(`marks ${written.join(' and ')} when it writes`, async () => {
      const labels = new Set<Label>(['outside']);
      const world = start({ ...workspace, labels });
      await world.marks.markBeforeCall({ run: world.run, callId, tool: writer });
      assert.deepEqual(world.written, [written]);
    });

    it(`marks ${written.join(' and ')} when it has downloaded`, async () => {
      const world = start(workspace);
      await world.marks.markAfterRun(world.run);
      assert.deepEqual(world.written, [written]);
    });
  });
