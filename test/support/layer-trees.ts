// Task trees whose agents have changed a person's directory in a layer, and a person's answers.
import assert from 'node:assert/strict';
import type { Fault } from '../../src/wire/errors.ts';
import type { LayerWorld } from './layers.ts';

let made = 0;

/** Returns a function that makes a tree whose agent has run a script over these files. */
export const makeTrees =
  (world: LayerWorld) => async (name: string, files: Record<string, string>, script: string) => {
    const { repo } = world.directory(name, files);
    const run = async (more: string): Promise<string> => {
      const box = await world.open(name, repo);
      return box.run(more).finally(() => box.close());
    };
    await run(script);
    const params = { id: world.treeId(name) };
    const list = async () => (await world.agentd.layerChanges({ params, query: {} })).changes;
    return {
      repo,
      params,
      run,
      list,
      kinds: async () => (await list()).map(({ kind, path }) => `${kind} ${path}`),
      conflicts: async () =>
        (await list()).flatMap(({ path, conflict }) => (conflict ? [`${path} ${conflict}`] : [])),
      apply: (more: object = {}) =>
        world.agentd.applyLayer({
          params,
          body: { apply_id: `apply-${made++}`, allow: [], ...more },
        }),
      undo: (apply_id?: string) =>
        world.agentd.undoApply({ params, body: apply_id === undefined ? {} : { apply_id } }),
      discard: () => world.agentd.discardLayer({ params, body: {} }),
      /** The text that an apply would write. */
      textOf: async (path: string): Promise<string | null> => {
        const body = { paths: [path], bytes_max: 1_048_576 };
        const { texts } = await world.agentd.layerTexts({ params, body });
        const text = texts[0]!.after_base64;
        return text && Buffer.from(text, 'base64').toString();
      },
    };
  };

/** Returns what is in the way of an apply or undo, which must fail. */
export async function conflictsOf(work: Promise<unknown>): Promise<unknown> {
  const error = await work.then(
    () => assert.fail('it was applied'),
    (found: unknown) => found as Fault,
  );
  assert.equal(error.code, 'conflict', String(error));
  return error.details?.conflicts;
}
