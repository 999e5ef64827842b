// Shows times where the operator is, with UTC on hover. Without this script all times are in UTC.

const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

for (const time of document.querySelectorAll('time[datetime]')) {
  time.title = `${time.textContent.trim()} UTC`;
  time.textContent = local.format(new Date(time.dateTime));
}
for (const heading of document.querySelectorAll('th'))
  if (heading.textContent.endsWith(' (UTC)')) heading.textContent = heading.textContent.replace(' (UTC)', '');
for (const cell of document.querySelectorAll('[data-label$="(UTC)"]'))
  cell.dataset.label = cell.dataset.label.replace(' (UTC)', '');
for (const note of document.querySelectorAll('[data-times]')) note.textContent = note.dataset.times;
