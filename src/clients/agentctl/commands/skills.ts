// agentctl skill list and show.
import type { Session } from '../command.ts';
import { formatSize } from '../show/amounts.ts';
import { replaceControls } from '../show/plain.ts';
import { renderProblem } from '../show/problem.ts';
import { renderFields, renderTable } from '../show/table.ts';

const HEADERS = [
  { title: 'SKILL' },
  { title: 'FROM', minWidth: 8 },
  { title: 'FOR', minWidth: 10 },
] as const;

export async function list({ args, out, runtime }: Session): Promise<void> {
  const goal = args.text('for');
  const query = goal === undefined ? {} : { goal };
  const answer = await runtime().call('agentd', 'listSkills', { query });
  out.print(answer, () => [
    ...(answer.skills.length === 0
      ? [goal === undefined ? 'No skills yet.' : 'No skill fits this goal.']
      : renderTable(
          HEADERS,
          answer.skills.map(({ name, source, description }) => [name, source, description]),
          out,
        )),
    ...answer.problems.flatMap((problem) => renderProblem(problem, out.paint)),
  ]);
}

export async function show({ args, out, runtime }: Session): Promise<void> {
  const [name, path] = args.positionals;
  const query = path === undefined ? {} : { path };
  const params = { name: name! };
  const answer = await runtime().call('agentd', 'getSkill', { params, query });
  const { skill, text, files } = answer;
  const lines = text.split('\n').map(replaceControls);
  out.print(answer, () =>
    path === undefined
      ? [
          ...renderFields(
            [
              ['skill', skill.name],
              ['for', replaceControls(skill.description)],
              ['expects', skill.expects.map(replaceControls).join(', ')],
              ['folder', skill.dir],
              ...files.map((file, i): [string, string] => [
                i === 0 ? 'files' : '',
                `${replaceControls(file.path)} (${formatSize(file.size_bytes)})`,
              ]),
              ['sha256', skill.sha256],
            ],
            out.paint,
            out.columns,
          ),
          '',
          ...lines,
        ]
      : lines,
  );
}
