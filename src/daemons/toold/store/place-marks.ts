// Stores the marks of places where runs leave files. A place is an absolute path of a directory on
// this host, or the id of what owns a private one, such as a task tree. Directories contain each
// other: the marks of one count for all above and below it.
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { pathsAbove } from '../../../policy/paths.ts';
import type { Label } from '../../../wire/primitives.ts';

export function makePlaceMarks(db: Database) {
  return {
    /** Returns the marks of these places, of directories above them, and of those below. */
    placeMarks: async (places: readonly string[]): Promise<Label[]> => {
      const paths = places.filter(isPath);
      const exact = [...new Set([...places, ...paths.flatMap(pathsAbove)])];
      const rows = await db.read((sql) =>
        sql.all<{ label: Label }>(
          `SELECT label FROM place_marks WHERE place IN (${listMarks(exact)}) ` +
            `UNION SELECT label FROM marks_within WHERE place IN (${listMarks(paths)}) ORDER BY 1`,
          ...exact,
          ...paths,
        ),
      );
      return rows.map(({ label }) => label);
    },

    markPlaces: (places: readonly string[], labels: readonly Label[]): Promise<void> =>
      db.write(async (sql) => {
        for (const label of labels)
          for (const place of places) {
            if (!(await addMark(sql, 'place_marks', place, label)) || !isPath(place)) continue;
            for (const above of pathsAbove(place)) await addMark(sql, 'marks_within', above, label);
          }
      }),
  };
}

const isPath = (place: string): boolean => place.startsWith('/');

const listMarks = (values: readonly string[]): string => values.map(() => '?').join(', ');

/** Returns false when the place has the mark already. */
const addMark = async (sql: Sql, table: string, place: string, label: Label): Promise<boolean> =>
  (await sql.run(
    `INSERT INTO ${table} (place, label) VALUES (?, ?) ON CONFLICT DO NOTHING`,
    place,
    label,
  )) > 0;
