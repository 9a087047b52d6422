// Hides each cell of a table and each entry of a list that is like an earlier one of its column or list, where it
// stands. axe passes over what cannot be seen; nothing moves. shownAgain() undoes it.
//
// Alike: the same tags, attributes and computed colours throughout, in rows that are alike too. Of texts, of numbers
// and of attributes that only name or place something it counts what a rule could ask: is there one, does it lead
// anywhere, does the name contain what is shown.
() => {
    const NAMES = new RegExp("^(data-.*|hx-.*|id|href|action|src|style|title|alt|aria-label|aria-valuenow|aria-valuetext" +
        "|name|value|datetime|placeholder|d|[xy][12]?|c[xy]|r|width|height|points|transform|viewBox)$");
    const LEADS = new RegExp("^(for|headers|aria-(labelledby|describedby|controls|owns|details|errormessage" +
        "|activedescendant))$");
    const LOOKS = ["color", "backgroundColor", "backgroundImage", "fontSize", "fontWeight", "opacity", "display",
        "visibility", "textDecorationLine"];
    const plain = text => text.replace(/\s+/g, " ").trim().toLowerCase();
    // None, a single character, more; with or without letters and digits: axe does not judge the colour of all.
    const kind = text => `${Math.min(plain(text).length, 2)}${/[\p{L}\p{N}]/u.test(text)}`;

    function led(element, ids) {
        return ids.split(/\s+/).map(id => {
            const to = id && document.getElementById(id);
            return to ? [element.closest("td, th, li, dt, dd").contains(to), kind(to.textContent)] : "nowhere";
        });
    }

    function attribute(element, {name, value}) {
        if (LEADS.test(name)) return `${name}>${led(element, value)}`;
        return NAMES.test(name) ? `${name}~${kind(value)}` : `${name}=${value}`;
    }

    function itself(element) {
        const style = getComputedStyle(element);
        const label = element.getAttribute("aria-label");
        return [element.tagName, ...[...element.attributes].map(one => attribute(element, one)).sort(),
            ...LOOKS.map(name => style[name]), element.labels ? element.labels.length : "",
            label === null || plain(label).includes(plain(element.innerText || ""))].join(" ");
    }

    function shape(element) {
        const below = [...element.childNodes].map(one =>
            one.nodeType === Node.TEXT_NODE ? kind(one.data) : one.nodeType === Node.ELEMENT_NODE ? shape(one) : "");
        return `<${itself(element)}>${[...new Set(below)].join("")}</>`;
    }

    const alike = [];
    for (const list of document.querySelectorAll("tbody, ul, ol, dl")) {
        const seen = new Set();
        for (const entry of list.children) {
            const isRow = entry.tagName === "TR", row = isRow ? itself(entry) : "";
            [...(isRow ? entry.children : [entry])].forEach((cell, column) => {
                const found = `${row} ${isRow ? column : ""} ${shape(cell)}`;
                if (seen.has(found)) alike.push(cell);
                seen.add(found);
            });
        }
    }
    const before = alike.map(one => one.style.visibility);
    alike.forEach(one => { one.style.visibility = "hidden"; });
    window.shownAgain = () => alike.forEach((one, place) => { one.style.visibility = before[place]; });
    return alike.length;
}
